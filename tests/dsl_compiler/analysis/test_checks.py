from typing import Any

from tests.fakes.canvas import canvas, diagnostics_of, node, switch, text
from tests.fakes.regions import assign, iteration, loop, out
from tests.harness.rows import each_row

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


def llm(downstream: Any = (), **more: Any) -> dict[str, Any]:
    return node("LLM", {"llm_id": "m@T", **more}, downstream)


INNER = {"component_name": "Agent", "name": "Inner", "params": {"llm_id": "m@T", "max_rounds": 9}}
BRANCHES = {"s": switch(["a"], ["b"]), "a": llm(max_retries=69), "b": llm(max_retries=79)}


@each_row(
    ("components", "calls"),
    [
        ({**loop({"m": llm(max_retries=3)}, count=50), **out("x")}, "200 times."),
        ({**loop({"m": llm()}, count=50), **out("x")}, ""),
        (
            {**iteration({"m": llm(max_retries=99)}, {}, items="sys.files"), **out("x")},
            "0 times, and 100 for each item of 'it'.",
        ),
        (BRANCHES, ""),
        ({"m": llm(["s"], max_retries=24), **BRANCHES}, "105 times."),
        ({"a": node("Agent", {"llm_id": "m@T", "max_rounds": 9, "tools": [INNER]})}, "156 times."),
    ],
)
def test_many_calls_of_all_rounds_items_and_agents_are_counted(components: dict[str, Any], calls: str) -> None:
    """Of several branches only the most expensive one counts."""
    messages = [d.message for d in diagnostics_of(canvas(components), "many-calls")]
    assert messages == ([f"A turn may call models about {calls}"] if calls else [])


EMAIL = {"smtp_server": "h", "email": "a@x", "smtp_password": "p", "to_email": "b@x"}


def condition(variable: str) -> dict[str, Any]:
    return {"variable": variable, "operator": "is", "value": "x", "input_mode": "constant"}


@each_row(
    ("body", "variable", "is_reported"),
    [
        ({"t": text()}, "n", True),
        ({"t": text()}, "lp@n", True),
        ({"t": text()}, "env.n", True),
        ({"w": assign("lp@n", "sys.query")}, "n", False),
        ({"w": assign("lp@n", "sys.query")}, "lp@n", False),
        ({"w": assign("env.n", "sys.query")}, "env.n", False),
        ({"t": text()}, "t@result", False),
        ({"t": text()}, "sys.conversation_turns", False),
        ({"t": text(["e"]), "e": node("ExitLoop")}, "n", False),
    ],
)
def test_a_loop_whose_test_cannot_change_is_reported(body: dict[str, Any], variable: str, is_reported: bool) -> None:
    region = loop(body, count=7, variables={"n": "1"}, loop_termination_condition=[condition(variable)])
    variables = {"n": {"name": "n", "type": "string", "value": ""}}
    found = diagnostics_of(canvas({**region, **out("x")}, variables=variables), "loop-without-exit")
    assert bool(found) == is_reported
    assert all("ends only after 7 rounds" in d.message for d in found)


def test_an_effect_in_a_body_is_reported() -> None:
    (finding,) = diagnostics_of(canvas({**loop({"e": node("Email", EMAIL)}), **out("x")}), "effect-repeated")
    assert (finding.severity, finding.node) == ("info", "e")
    assert not diagnostics_of(canvas({"e": node("Email", EMAIL)}), "effect-repeated")
    allowed = {**EMAIL, "once_only": False}
    assert not diagnostics_of(canvas({**loop({"e": node("Email", allowed)}), **out("x")}), "effect-repeated")


def test_unhandled_failures_of_services_are_reported_once() -> None:
    handled = {"exception_method": "comment", "exception_default_value": "none"}
    components = {
        "a": node("Wikipedia", {"query": "x"}, ["b"]),
        "b": node("ArXiv", {"query": "x"}, ["c"]),
        "c": node("PubMed", {"query": "x", **handled}),
    }
    (finding,) = diagnostics_of(canvas(components), "failure-unhandled")
    assert finding.message == "The turn fails if a service does not answer: a, b."


SCHEMA = {"type": "object", "properties": {"title": {"type": "string"}, "tags": {"type": "array"}}}
MODEL = node("LLM", {"llm_id": "m@T", "outputs": {"structured": SCHEMA}}, ["x"])


def findings(code: str, component: dict[str, Any]) -> list[tuple[str, str]]:
    return [(d.message, d.hint) for d in diagnostics_of(canvas({"llm": MODEL, "x": component}), code)]


def test_an_unknown_entry_is_reported_with_the_nearest_one() -> None:
    ((message, hint),) = findings("reference-unknown-entry", text((), "{llm@structured.titl}"))
    assert message == "'llm@structured.titl' has no entry 'titl'; its value is empty."
    assert hint == "Did you mean title?"
    assert not findings("reference-unknown-entry", text((), "{llm@structured.title} {llm@structured.tags.0}"))
    assert findings("reference-unknown-entry", text((), "{llm@structured.tags.0.x} {llm@content.a}")) == []


def test_an_open_schema_allows_other_entries() -> None:
    open_schema = {**SCHEMA, "additionalProperties": True}
    llm = node("LLM", {"llm_id": "m@T", "outputs": {"structured": open_schema}}, ["x"])
    document = canvas({"llm": llm, "x": text((), "{llm@structured.other}")})
    assert not diagnostics_of(document, "reference-unknown-entry")


@each_row(
    ("component", "message"),
    [
        (
            node("ListOperations", {"query": "llm@content"}),
            "'llm@content' is text; ListOperations needs a list and fails.",
        ),
        (node("ListOperations", {"query": "llm@structured.tags"}), ""),
        (switch(["y"], ["y"], ">", "llm@structured.tags"), "'llm@structured.tags' is a list; > is never true for it."),
        (switch(["y"], ["y"], ">", "llm@structured.title"), ""),
        (
            node("StringTransform", {"method": "split", "split_ref": "llm@structured"}),
            "'llm@structured' is an object; only text can be split, so the node fails.",
        ),
        (node("StringTransform", {"method": "split", "split_ref": "llm@unknown"}), ""),
    ],
)
def test_a_value_of_the_wrong_type_is_reported(component: dict[str, Any], message: str) -> None:
    components = {"llm": MODEL, "x": component, "y": text()}
    assert [d.message for d in diagnostics_of(canvas(components), "value-type")] == ([message] if message else [])
