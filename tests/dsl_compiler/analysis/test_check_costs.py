from typing import Any

from tests.fakes.canvas import canvas, diagnostics_of, node, switch
from tests.fakes.regions import iteration, loop, out


def llm(downstream: Any = (), **more: Any) -> dict[str, Any]:
    return node("LLM", {"llm_id": "m@T", **more}, downstream)


def messages(components: dict[str, Any]) -> list[str]:
    return [d.message for d in diagnostics_of(canvas(components), "many-calls")]


def test_the_calls_of_all_rounds_are_counted() -> None:
    (message,) = messages({**loop({"m": llm(max_retries=3)}, count=50), **out("x")})
    assert message == "A turn may call models about 200 times."
    assert not messages({**loop({"m": llm()}, count=50), **out("x")})


def test_calls_for_each_item_are_counted_apart() -> None:
    (message,) = messages({**iteration({"m": llm(max_retries=99)}, {}, items="sys.files"), **out("x")})
    assert message == "A turn may call models about 0 times, and 100 for each item of 'it'."


def test_only_the_most_expensive_branch_counts() -> None:
    branches = {"s": switch(["a"], ["b"]), "a": llm(max_retries=69), "b": llm(max_retries=79)}
    assert not messages(branches)
    (message,) = messages({"m": llm(["s"], max_retries=24), **branches})
    assert message == "A turn may call models about 105 times."


def test_tools_of_an_agent_are_called_in_its_rounds() -> None:
    inner = {"component_name": "Agent", "name": "Inner", "params": {"llm_id": "m@T", "max_rounds": 9}}
    (message,) = messages({"a": node("Agent", {"llm_id": "m@T", "max_rounds": 9, "tools": [inner]})})
    assert message == "A turn may call models about 156 times."
