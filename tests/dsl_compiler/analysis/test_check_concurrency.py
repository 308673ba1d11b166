from typing import Any

from tests.fakes.canvas import canvas, diagnostics_of, node, switch, text
from tests.fakes.regions import assign, iteration, loop, out

LLM = {"llm_id": "m@T", "prompts": [{"role": "user", "content": "{ii@item}"}]}
VARIABLES = {"n": {"name": "n", "type": "string", "value": ""}}


def races(components: dict[str, Any]) -> list[tuple[str, str]]:
    return [(d.node, d.message) for d in diagnostics_of(canvas(components, variables=VARIABLES), "write-race")]


def test_two_writers_side_by_side_are_reported() -> None:
    both = {"w": assign("env.n", "sys.query"), "v": assign("env.n", "sys.query")}
    ((id_, message),) = races({"a": text(["w", "v"]), **both})
    assert (id_, message) == ("v", "This node and 'w' may run at the same time, and both change env.n.")
    assert not races({"s": switch(["w"], ["v"]), **both}), "only one of two branches runs"
    assert not races({"w": assign("env.n", "sys.query", downstream=["v"]), "v": both["v"]}), "one runs after the other"
    assert not races({"a": text(["w", "v"]), "w": both["w"], "v": assign("env.m", "sys.query")})


def test_a_region_writes_what_its_body_writes() -> None:
    body = {"w": assign("env.n", "sys.query")}
    components = {"a": text(["lp", "v"]), **loop(body), **out("x"), "v": assign("env.n", "sys.query")}
    ((id_, message),) = races(components)
    assert (id_, "'w'" in message) == ("v", True)


def rounds(body: dict[str, Any], **params: Any) -> list[str]:
    document = canvas({**iteration(body, {}, items="sys.files", **params), **out("x")}, variables=VARIABLES)
    return [d.message for d in diagnostics_of(document, "rounds-in-turn")]


def test_independent_rounds_could_run_at_the_same_time() -> None:
    (message,) = rounds({"m": node("LLM", LLM)})
    assert message.endswith("although they do not depend on each other.")
    assert not rounds({"m": node("LLM", LLM)}, max_concurrency=4)
    assert not rounds({"t": text()}), "rounds without calls are quick"


def test_the_obstacle_is_named() -> None:
    (message,) = rounds({"m": node("LLM", LLM, ["w"]), "w": assign("env.n", "m@content")})
    assert "because 'w' changes env.n, which is shared by all rounds." in message
    (message,) = rounds({"m": node("LLM", LLM, ["o"]), "o": node("Message", {"content": ["{m@content}"]})})
    assert "because 'o' shows text" in message
    previous = {"llm_id": "m@T", "prompts": [{"role": "user", "content": "{t@result}"}]}
    (message,) = rounds({"m": node("LLM", previous, ["t"]), "t": text()})
    assert message.endswith("although they do not depend on each other."), "an item does not see the one before"
