from __future__ import annotations

from typing import Any

import pytest

from ragflow_lg.dsl_compiler import check_canvas, compile_canvas
from ragflow_lg.dsl_compiler.passes.bind_canvases import MAX_CANVASES
from ragflow_lg.services.tool_policies import ToolPermits
from tests.fakes.agents import WIKI
from tests.fakes.canvas import CATALOG, canvas, node
from tests.fakes.policies import Canvases, entry
from tests.fakes.regions import form

HELLO = canvas({"m": node("Message", {"content": "hello"})})


def playing(*names: str, **more: Any) -> dict[str, Any]:
    """Give a canvas whose agent has other canvases as tools."""
    tools = [entry("Canvas", canvas=name) for name in names]
    return canvas({"a": node("Agent", {"llm_id": "m@T", "prompts": "p", "tools": tools, **more})})


def checked(document: Any, permits: ToolPermits | None = None, **documents: Any) -> tuple[Any, list[tuple[str, str]]]:
    plan, found = check_canvas(document, CATALOG, Canvases(documents, permits or ToolPermits()))
    return plan, [(d.code, d.pointer) for d in found if d.severity != "info"]


def messages(document: Any, **documents: Any) -> list[str]:
    return [str(d) for d in check_canvas(document, CATALOG, Canvases(documents))[1] if d.severity != "info"]


PLACE = "/components/a/obj/params/tools/0/params/canvas"


def test_a_tool_has_the_plan_of_its_canvas() -> None:
    plan, found = checked(playing("hello"), hello=HELLO)
    assert found == []
    assert list(plan.nodes["a"].tools[0].canvas.plan.nodes) == ["begin", "m"]


def test_a_node_has_it_too_and_in_a_tool_of_a_tool() -> None:
    helper = {
        "component_name": "Agent",
        "name": "H",
        "params": {"llm_id": "m@T", "tools": [entry("Canvas", canvas="x")]},
    }
    document = canvas(
        {
            "c": node("Canvas", {"canvas": "ghost"}, ["a"]),
            "a": node("Agent", {"llm_id": "m@T", "prompts": "p", "tools": [helper]}),
        }
    )
    assert checked(document)[1] == [
        ("canvas-unknown", "/components/c/obj/params/canvas"),
        ("canvas-unknown", "/components/a/obj/params/tools/0/params/tools/0/params/canvas"),
    ]


def test_the_canvas_hash_follows_what_is_played() -> None:
    other = canvas({"m": node("Message", {"content": "goodbye"})})
    hashes = {
        compile_canvas(playing("c"), CATALOG, Canvases({"c": inner})).plan.canvas_hash
        for inner in (HELLO, other, HELLO)
    }
    assert len(hashes) == 2


def test_what_is_wrong_there_is_told_at_the_tool() -> None:
    broken = canvas({"m": node("Message", {"content": "{ghost@x}"}, ["nowhere"], **{})})
    _, found = checked(playing("broken"), broken=broken)
    assert {pointer for _, pointer in found} == {PLACE}
    assert "reference-unknown-node" in {code for code, _ in found}
    (told, *_) = messages(playing("broken"), broken=broken)
    assert "In the canvas 'broken' line 1 [m]: " in told
    assert checked(playing("junk"), junk=b"{")[1] == [("json-invalid", PLACE)]


def test_not_everything_that_is_wrong_there_is_told() -> None:
    broken = canvas({f"m{i}": node("Warp") for i in range(500)})
    assert len(checked(playing("broken"), broken=broken)[1]) <= 20


@pytest.mark.parametrize(
    ("inner", "says"),
    [
        (canvas({"f": form("name")}), "'f' asks the user for input"),
        (
            canvas({"begin": node("Begin", {"mode": "Webhook"}, ["m"]), "m": node("Message", {"content": "x"})}),
            "webhook",
        ),
        (
            canvas(
                {
                    "begin": node("Begin", {"inputs": {"scan": {"type": "file", "optional": False}}}, ["m"]),
                    "m": node("Message", {"content": "x"}),
                }
            ),
            "needs a file",
        ),
    ],
)
def test_what_cannot_be_played_within_another_is_refused(inner: Any, says: str) -> None:
    plan, found = checked(playing("c"), c=inner)
    assert plan is None
    assert found == [("canvas-unfit", PLACE)]
    assert says in messages(playing("c"), c=inner)[0]


def test_canvases_that_play_each_other_are_refused_with_the_way() -> None:
    documents = {"a": playing("b"), "b": playing("c"), "c": playing("a")}
    plan, diagnostics = check_canvas(documents["a"], CATALOG, Canvases(documents, key="a"))
    assert plan is None
    (told,) = [d for d in diagnostics if d.severity == "error"]
    assert (told.code, told.pointer) == ("canvas-unfit", PLACE)
    assert "this canvas → b → c → a" in told.message
    assert "b → b" in messages(playing("b"), b=playing("b"))[0]


def test_a_row_of_canvases_ends_somewhere() -> None:
    row = {f"c{i}": playing(f"c{i + 1}") for i in range(50)} | {"c50": HELLO}
    assert checked(playing("c0"), **row)[0] is None
    assert checked(playing("c44"), **row)[0] is not None


def test_a_tree_of_canvases_does_too() -> None:
    tree = {f"c{i}": playing(*[f"c{i + 1}"] * 10) for i in range(7)} | {"c7": HELLO}
    found = checked(playing("c0"), **tree)[1]
    assert len(found) < MAX_CANVASES * 20


def test_a_rule_of_the_deployment_holds_for_canvases_and_within_them() -> None:
    inner = canvas({"a": node("Agent", {"llm_id": "m@T", "prompts": "p", "tools": [WIKI]})})
    assert checked(playing("c"), ToolPermits(deny=("canvas:c",)), c=HELLO)[1] == [
        ("tool-forbidden", "/components/a/obj/params/tools/0")
    ]
    assert checked(playing("c"), ToolPermits(("canvas:c",)), c=inner)[1] == [("tool-forbidden", PLACE)]
    assert checked(playing("c"), ToolPermits(("canvas:c", "Wiki*")), c=inner)[1] == []
