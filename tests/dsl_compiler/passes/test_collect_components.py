import json
import time
from typing import Any

from ragflow_lg.base.ids import NodeId
from ragflow_lg.dsl_compiler import check_canvas
from ragflow_lg.dsl_compiler.deployment import CanvasLimits, NoDeployment
from ragflow_lg.dsl_compiler.passes.collect_components import MAX_COMPONENTS
from tests.fakes.canvas import CATALOG, assert_findings, canvas, diagnostics_of, node, plan_of, text
from tests.fakes.policies import Canvases
from tests.fakes.regions import answer_of, out
from tests.harness.rows import each_row


def to_b(downstream: Any) -> dict[str, Any]:
    return canvas({"a": {**text(), "downstream": downstream}, "b": text()})


@each_row("downstream", ["b", ["b", "b"], ["b", None, 3]])
def test_downstream_may_have_several_shapes(downstream: Any) -> None:
    assert plan_of(to_b(downstream)).nodes[NodeId("a")].downstream == ("b",)


NESTED = {"r0": node("Loop"), **{f"r{i}": node("Loop", parent_id=f"r{i - 1}") for i in range(1, 200)}}
LEGACY = [{"id": "begin", "data": {"label": "Begin"}}, {"id": "g", "data": {"label": "Generate"}}]
FILE = {"id": "File", "type": "beginNode", "data": {"label": "File"}}
MALFORMED: list[Any] = [None, 1, "x", [], {"obj": {}}, {"obj": {"component_name": 3}}, {"...": "..."}]
EMPTY: list[Any] = [{}, {"components": {}}, {"graph": {"nodes": []}}]
LIST = {"obj": {"component_name": "Message", "params": [1]}}


@each_row(
    ("document", "code", "expected"),
    [
        *((to_b(usual), "document-shape", []) for usual in (None, "", [], ["b"])),
        (to_b("b"), "document-shape", ["^warning .*/components/a/downstream: .*is a string, not a list.* .+"]),
        (to_b(["b", None, 3]), "document-shape", ["^warning .*/1: .*is null, not an id; it is ignored"]),
        (to_b(["b", {}]), "document-shape", ["^warning .*/1: .*is an object, not an id"]),
        (to_b(3), "document-shape", ["^error .*/downstream: .*is a number, not a list of ids"]),
        (to_b(True), "document-shape", ["^error .*/downstream: .*is true or false, not a list of ids"]),
        *(({"components": wrong}, "document-shape", ["^error .* /components: "]) for wrong in (False, "x", 1)),
        *((canvas({"a": text(), "bad": bad}), "document-shape", ["^error .* /components/bad: "]) for bad in MALFORMED),
        (canvas({"bad": LIST}), "document-shape", [" /components/bad/obj/params: "]),
        *((canvas({"a": text(), id_: text()}), "id-invalid", ["^error"]) for id_ in ("", "__operations__")),
        (canvas({"x" * 2000: text(), "a": text()}, ["a"]), "id-invalid", ["^error .* /components: .{,250}$"]),
        *((empty, "document-empty", ["^error"]) for empty in EMPTY),
        (canvas(NESTED), "document-too-large", ["deep"]),
        (canvas({f"n{i}": text() for i in range(MAX_COMPONENTS + 1)}), "document-too-large", ["10,000"]),
        *(
            (pipeline, "pipeline-document", ["^error"])
            for pipeline in (
                {"components": {"File": node("File", {}, ["p"]), "p": node("Parser")}},
                {"canvas_category": "dataflow_canvas", "dsl": {"components": {"a": text()}}},
                {"components": {"x": node("Compiler")}},
                {"graph": {"nodes": [FILE], "edges": []}},
                *(
                    {"components": {"File": node("File"), "x": node(name)}}
                    for name in ("Chunker", "GroupTitleChunker", "HierarchyTitleChunker")
                ),
            )
        ),
        (canvas({"a": node("Cite")}), "legacy-component", ["^error .*/components/a: .*Replaced by.*LLM or Agent with"]),
        ({"graph": {"nodes": LEGACY}}, "legacy-component", ["^warning", " /graph/nodes/1: "]),
    ],
)
def test_a_document_of_a_wrong_shape_is_reported(document: dict[str, Any], code: str, expected: list[str]) -> None:
    assert_findings(document, code, *expected)


@each_row("id_", ["__e", "__start__", "__end__", "__round__", "__interrupt__"])
async def test_ids_that_look_like_langgraph_names_are_accepted(id_: str) -> None:
    components = {id_: text(["out"], "x"), **out(f"got {{{id_}@result}}")}
    assert await answer_of(components) == "got x"


def test_missing_keys_have_defaults_and_flat_components_are_read() -> None:
    flat: dict[str, Any] = {
        "id": "a",
        "name": "StringTransform",
        "params": {"method": "merge", "script": "x"},
        "downstream": [],
    }
    document: dict[str, Any] = {
        "components": {"begin": {"obj": {"component_name": "Begin"}, "downstream": ["a"]}, "a": flat}
    }
    plan = plan_of(document)
    assert (plan.nodes[NodeId("begin")].downstream, plan.nodes[NodeId("a")].spec.name) == (("a",), "StringTransform")


def test_what_is_wrong_in_a_flat_component_is_reported_at_its_place() -> None:
    tool = {"component_name": "Canvas", "name": "c", "params": {"canvas": "gone"}}
    params: dict[str, Any] = {"llm_id": "m@T", "mcp": [{"mcp_id": "far", "tools": {"find": {}}}], "tools": [tool]}
    components: dict[str, Any] = {
        "a": {"name": "Agent", "params": params},
        "c": {"name": "Canvas", "params": {"canvas": "gone"}},
    }
    _, diagnostics = check_canvas(canvas(components, ["a", "c"]), CATALOG, Canvases(servers={}))
    assert {d.code: d.pointer for d in diagnostics if d.severity == "error"} == {
        "mcp-server-unknown": "/components/a/params/mcp/0/mcp_id",
        "canvas-unknown": "/components/c/params/canvas",
    }


def test_titles_come_from_the_graph() -> None:
    graph = {"nodes": [{"id": "a", "data": {"name": "Titled"}}, "junk", {"id": 3}]}
    assert plan_of(canvas({"a": text()}, graph=graph)).nodes[NodeId("a")].title == "Titled"


def test_old_run_state_and_upstream_are_ignored() -> None:
    state: dict[str, Any] = {"path": ["begin", "a"], "history": [["user", "x"]], "retrieval": {}, "memory": None}
    components = {"a": text(["b"]), "b": text()}
    ran = {"a": {**text(["b"]), "upstream": ["nobody"]}, "b": {**text(), "upstream": None}}
    assert plan_of(canvas(ran, **state)).canvas_hash == plan_of(canvas(components)).canvas_hash
    assert not diagnostics_of(canvas(ran, **state), "document-shape")


class Limited(NoDeployment):
    """A deployment with the default limits."""

    limits = CanvasLimits()


def with_param(value: Any) -> dict[str, Any]:
    return node("StringTransform", {"method": "merge", "script": "x", "extra": value})


def problems(components: dict[str, Any], **more: Any) -> list[str]:
    document = json.dumps({**canvas(components), **more})
    return [f"{d.code}: {d.message}" for d in check_canvas(document, CATALOG, Limited())[1] if d.severity == "error"]


@each_row(
    ("components", "message"),
    [
        ({f"n{i}": text() for i in range(2_001)}, "2,002 components; the limit is 2,000."),
        ({"n": text(script="x" * 2_200_000)}, "2,200,005 characters in the texts of its parameters; the limit"),
        ({"n": text(script="{sys.query}" * 60_000)}, "60,000 references and braces in its parameters; the limit"),
        ({"n": with_param([0] * 10_001)}, "10,001 entries in one list of its parameters; the limit is"),
        ({"n": with_param([[0] * 9_000] * 20)}, "entries in its parameters; the limit is 100,000."),
    ],
)
def test_a_canvas_that_exceeds_a_limit_is_refused_quickly(components: dict[str, Any], message: str) -> None:
    begin = time.process_time()
    (problem,) = problems(components)

    assert problem.startswith("document-too-large: The canvas has ")
    assert message in problem
    assert time.process_time() - begin < 5


def test_the_length_of_the_document_is_limited() -> None:
    (problem,) = problems({"n": text()}, notes="x" * 4 * 1024 * 1024)

    assert "the limit canvas_bytes is 4,194,304." in problem


def test_a_canvas_within_the_limits_is_accepted() -> None:
    assert problems({f"n{i}": text() for i in range(1_000)}) == []
