from typing import Any

from ragflow_lg.dsl_compiler import check_canvas, compile_canvas
from ragflow_lg.dsl_compiler.passes.bind_canvases import MAX_CANVASES
from ragflow_lg.services.tool_policies import ToolPermits
from tests.fakes.agents import WIKI
from tests.fakes.canvas import CATALOG, canvas, node
from tests.fakes.policies import Canvases, entry
from tests.fakes.regions import form
from tests.harness.rows import each_row

HELLO = canvas({"m": node("Message", {"content": "hello"})})


def canvas_with_tools(*names: str, **more: Any) -> dict[str, Any]:
    """Build a canvas whose agent has other canvases as tools."""
    tools = [entry("Canvas", canvas=name) for name in names]
    return canvas({"a": node("Agent", {"llm_id": "m@T", "prompts": "p", "tools": tools, **more})})


def check(document: Any, permits: ToolPermits | None = None, /, **documents: Any) -> tuple[Any, list[tuple[str, str]]]:
    plan, diagnostics = check_canvas(document, CATALOG, Canvases(documents, permits or ToolPermits()))
    return plan, [(d.code, d.pointer) for d in diagnostics if d.severity != "info"]


def messages(document: Any, **documents: Any) -> list[str]:
    return [str(d) for d in check_canvas(document, CATALOG, Canvases(documents))[1] if d.severity != "info"]


PLACE = "/components/a/obj/params/tools/0/params/canvas"


def test_a_canvas_tool_has_the_plan_of_the_canvas() -> None:
    plan, problems = check(canvas_with_tools("hello"), hello=HELLO)
    assert problems == []
    assert list(plan.nodes["a"].tools[0].canvas.plan.nodes) == ["begin", "m"]


def test_canvas_nodes_and_tools_of_tools_are_bound() -> None:
    helper = entry("Agent", llm_id="m@T", tools=[entry("Canvas", canvas="x")])
    agent = node("Agent", {"llm_id": "m@T", "prompts": "p", "tools": [helper]})
    assert check(canvas({"c": node("Canvas", {"canvas": "ghost"}, ["a"]), "a": agent}))[1] == [
        ("canvas-unknown", "/components/c/obj/params/canvas"),
        ("canvas-unknown", "/components/a/obj/params/tools/0/params/tools/0/params/canvas"),
    ]


def test_the_canvas_hash_includes_played_canvases() -> None:
    other = canvas({"m": node("Message", {"content": "goodbye"})})
    hashes = {
        compile_canvas(canvas_with_tools("c"), CATALOG, Canvases({"c": inner})).plan.canvas_hash
        for inner in (HELLO, other, HELLO)
    }
    assert len(hashes) == 2


def test_problems_of_a_played_canvas_are_reported_at_the_tool() -> None:
    broken = canvas({"m": node("Message", {"content": "{ghost@x}"}, ["nowhere"], **{})})
    _, problems = check(canvas_with_tools("broken"), broken=broken)
    assert {pointer for _, pointer in problems} == {PLACE}
    assert "reference-unknown-node" in {code for code, _ in problems}
    (message, *_) = messages(canvas_with_tools("broken"), broken=broken)
    assert "In the canvas 'broken' line 1 [m]: " in message
    assert check(canvas_with_tools("junk"), junk=b"{")[1] == [("json-invalid", PLACE)]


def test_only_the_first_problems_of_a_played_canvas_are_reported() -> None:
    broken = canvas({f"m{i}": node("Warp") for i in range(500)})
    assert len(check(canvas_with_tools("broken"), broken=broken)[1]) <= 20


WEBHOOK = {"mode": "Webhook", "security": {"auth_type": "none", "allow_anonymous": True}}
SCAN = {"inputs": {"scan": {"type": "file", "optional": False}}}
M = {"m": node("Message", {"content": "x"})}


@each_row(
    ("inner", "message"),
    [
        (canvas({"f": form("name")}), "'f' asks the user for input"),
        (canvas({"begin": node("Begin", WEBHOOK, ["m"]), **M}), "webhook"),
        (canvas({"begin": node("Begin", SCAN, ["m"]), **M}), "needs a file"),
    ],
)
def test_an_unfit_canvas_is_refused(inner: Any, message: str) -> None:
    plan, problems = check(canvas_with_tools("c"), c=inner)
    assert (plan, problems) == (None, [("canvas-unfit", PLACE)])
    assert message in messages(canvas_with_tools("c"), c=inner)[0]


def test_canvases_that_play_each_other_are_refused_with_their_path() -> None:
    documents = {"a": canvas_with_tools("b"), "b": canvas_with_tools("c"), "c": canvas_with_tools("a")}
    plan, diagnostics = check_canvas(documents["a"], CATALOG, Canvases(documents, key="a"))
    assert plan is None
    (diagnostic,) = [d for d in diagnostics if d.severity == "error"]
    assert (diagnostic.code, diagnostic.pointer) == ("canvas-unfit", PLACE)
    assert "this canvas → b → c → a" in diagnostic.message
    assert "b → b" in messages(canvas_with_tools("b"), b=canvas_with_tools("b"))[0]


def test_the_depth_of_nested_canvases_is_limited() -> None:
    row = {f"c{i}": canvas_with_tools(f"c{i + 1}") for i in range(50)} | {"c50": HELLO}
    assert check(canvas_with_tools("c0"), **row)[0] is None
    assert check(canvas_with_tools("c44"), **row)[0] is not None


def test_the_number_of_nested_canvases_is_limited() -> None:
    tree = {f"c{i}": canvas_with_tools(*[f"c{i + 1}"] * 10) for i in range(7)} | {"c7": HELLO}
    problems = check(canvas_with_tools("c0"), **tree)[1]
    assert len(problems) < MAX_CANVASES * 20


def test_permits_apply_to_canvases_and_to_tools_inside_them() -> None:
    inner = canvas({"a": node("Agent", {"llm_id": "m@T", "prompts": "p", "tools": [WIKI]})})
    assert check(canvas_with_tools("c"), ToolPermits(deny=("canvas:c",)), c=HELLO)[1] == [
        ("tool-forbidden", "/components/a/obj/params/tools/0")
    ]
    assert check(canvas_with_tools("c"), ToolPermits(("canvas:c",)), c=inner)[1] == [("tool-forbidden", PLACE)]
    assert check(canvas_with_tools("c"), ToolPermits(("canvas:c", "Wiki*")), c=inner)[1] == []
