"""DSL v2: closure, no loss, edits, and what is refused."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from ragflow_lg.base.errors import CompileError
from ragflow_lg.dsl_compiler import check_canvas, convert_source
from ragflow_lg.dsl_compiler.schema import canvas_v2_schema
from tests.conftest import FIXTURES
from tests.fakes.canvas import CATALOG, canvas, node, plan_of, switch, text
from tests.harness.corpus import find_canvases
from tests.harness.rows import each_row
from tests.harness.v2_closure import find_closure_problem, read_document

ROOT = Path(__file__).parents[3]
OWN = [*find_canvases(FIXTURES / "canvas"), *(ROOT / "examples").glob("*.json")]

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.text("abcXYZ09_-ü ", min_size=1, max_size=8)
KEYS = st.one_of(NAMES, st.builds("{}:{}".format, NAMES, NAMES))


@cache
def validator() -> Any:
    return Draft202012Validator(canvas_v2_schema(CATALOG))


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    keys = draw(st.lists(KEYS, min_size=1, max_size=6, unique_by=str.lower))
    components: dict[str, Any] = {}
    for key in keys:
        params = draw(st.dictionaries(st.text(max_size=8), JSON, max_size=3))
        obj: dict[str, Any] = {"component_name": draw(NAMES), "params": params}
        components[key] = {"obj": obj, "downstream": draw(st.lists(st.sampled_from(keys), unique=True))}
        components[key] |= draw(st.fixed_dictionaries({}, optional={"upstream": JSON, "parent_id": JSON, "more": JSON}))
        obj |= draw(st.fixed_dictionaries({}, optional={"downstream": JSON, "more": JSON}))
    more = draw(st.dictionaries(st.text("gh", min_size=1, max_size=3), JSON, max_size=3))
    return {"components": components, **more}


def core(document: dict[str, Any]) -> Any:
    return {id_: (entry["id"], entry["downstream"], entry["params"]) for id_, entry in document["components"].items()}


@each_row("path", OWN)
def test_a_canvas_comes_back_as_it_was(path: Path) -> None:
    assert_closed(path)


def test_real_canvases_come_back_as_they_were(shared_corpus: Path) -> None:
    for path in find_canvases(shared_corpus):
        assert_closed(path)


def assert_closed(path: Path) -> None:
    assert find_closure_problem(path) == ""
    original = read_document(path)
    is_graph_only = not original.get("dsl", original).get("components")
    assert is_graph_only or not list(validator().iter_errors(convert_source(original, "v2"))) or list_errors(original)


def list_errors(original: Any) -> list[str]:
    """Return the errors of a canvas whose params do not satisfy the schema in DSL v1 either."""
    return [d.code for d in check_canvas(original, CATALOG)[1] if d.severity == "error" or d.code.startswith("legacy")]


@given(documents())
def test_any_document_comes_back_as_it_was(document: dict[str, Any]) -> None:
    try:
        v2 = convert_source(document, "v2")
    except CompileError as error:
        v2, codes = None, {d.code for d in error.diagnostics}
        assert codes == {"id-invalid"}
    if v2 is None:
        return
    assert convert_source(json.dumps(v2), "v1") == document
    plain = convert_source(document, "v2", is_plain=True)
    assert plain.keys() == {"version", "components"}
    if not any(entry["name"] in ("Loop", "Iteration") for entry in plain["components"].values()):
        assert core(convert_source(convert_source(plain, "v1"), "v2", is_plain=True)) == core(plain)


def test_the_flat_form() -> None:
    document = canvas(
        {"Switch:AbC": switch(["Message:Yes"], ["Message:No"]), "Message:Yes": text(), "Message:No": text()}
    )
    plain = convert_source(document, "v2", is_plain=True)
    assert list(plain["components"]) == ["begin_", "switch_abc", "message_yes", "message_no"]
    assert plain["components"]["begin_"] == {
        "id": "begin_",
        "name": "Begin",
        "downstream": ["switch_abc"],
        "params": {},
    }
    back = convert_source(plain, "v1")
    # The case is that of the routes in the Switch; nothing names the Switch itself.
    assert list(back["components"]) == ["begin", "Message:No", "Message:Yes", "Switch:abc"]
    assert back["components"]["Switch:abc"]["upstream"] == ["begin"]
    assert check_canvas(back, CATALOG)[0] is not None
    assert {edge["sourceHandle"] for edge in back["graph"]["edges"]} == {"start", "Case 1", "end_cpn_ids"}


def test_the_records_of_ragflow_stay_beside() -> None:
    params = {"content": ["x"], "_user_feeded_params": ["content"]}
    document = canvas({"Message:A": node("Message", params)})
    v2 = convert_source(document, "v2")
    assert v2["components"]["message_a"]["params"] == {"content": ["x"]}
    assert convert_source(v2, "v1") == document


def test_an_edit_wins_and_the_drawing_follows() -> None:
    graph: dict[str, Any] = {
        "nodes": [
            {"id": "begin", "position": {"x": 1, "y": 2}, "data": {"label": "Begin", "name": "begin", "form": {}}},
            {"id": "Message:A", "position": {"x": 3, "y": 4}, "data": {"label": "Message", "name": "Hi", "form": {}}},
            {"id": "Note:B", "position": {"x": 5, "y": 6}, "data": {"label": "Note", "name": "n"}},
        ],
        "edges": [{"id": "e", "source": "begin", "sourceHandle": "start", "target": "Message:A"}],
    }
    document = canvas({"Message:A": node("Message", {"content": ["x"]}, upstream=["begin"])}, graph=graph)
    v2 = convert_source(document, "v2")
    v2["components"]["message_a"] |= {"params": {"content": ["y"]}, "downstream": ["message_c"]}
    v2["components"]["message_c"] = {"id": "message_c", "name": "Message", "downstream": [], "params": {"content": "z"}}
    v1 = convert_source(v2, "v1")
    nodes = {entry["id"]: entry for entry in v1["graph"]["nodes"]}
    assert list(nodes) == ["begin", "Message:A", "Note:B", "Message:c"]
    assert nodes["begin"] == graph["nodes"][0]
    assert nodes["Message:A"]["position"] == {"x": 3, "y": 4}
    assert nodes["Message:A"]["data"] == {"label": "Message", "name": "Hi", "form": {"content": ["y"]}}
    assert [(e["source"], e["target"]) for e in v1["graph"]["edges"]] == [
        ("begin", "Message:A"),
        ("Message:A", "Message:c"),
    ]
    del v2["components"]["message_a"]
    v2["components"]["begin_"]["downstream"] = ["message_c"]
    v1 = convert_source(v2, "v1")
    assert [entry["id"] for entry in v1["graph"]["nodes"]] == ["begin", "Note:B", "Message:c"]
    assert [(e["source"], e["target"]) for e in v1["graph"]["edges"]] == [("begin", "Message:c")]


@each_row(
    ("components", "message"),
    [
        ({}, "no components"),
        ({"a_b": 3}, "should be an object"),
        ({"a_b": {"name": ""}}, "has no name"),
        ({"a:b": {"name": "A"}}, "no colon"),
        ({"a_b": {"name": "A", "id": "a_c"}}, "repeat the key"),
        ({"a_b": {"name": "A", "downstream": ["c_"]}}, "'c_', which does not exist"),
        ({"a_b": {"name": "A", "downstream": "c_"}}, "list of ids"),
        ({"a_b": {"name": "A", "params": []}}, "'params' should be an object"),
        ({"a_b": {"name": "A", "obj": {}}}, "no 'obj' here, only: id, name"),
        ({"a_b": {"name": "Loop"}}, "does not say which nodes stand in it"),
        ({"begin": {"name": "Begin"}, "begin_": {"name": "Begin"}}, "the same id in DSL v1, 'begin'"),
    ],
)
def test_what_is_wrong_is_reported(components: Any, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        convert_source({"version": 2, "components": components}, "v1")


@each_row(
    ("v1", "message"),
    [
        (3, "'v1' should be an object"),
        ({"more": 1}, "no 'more' here"),
        ({"components": {"a_b": {}}}, "lacks 'key'"),
        ({"components": {"a_b": {"key": "A:b", "digest": "0", "entry": 3}}}, "'entry' should be an object"),
        ({"document": []}, "'document' should be an object"),
    ],
)
def test_what_is_wrong_beside_dsl_v2_is_reported(v1: Any, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        convert_source({"version": 2, "components": {"a_b": {"name": "A"}}, "v1": v1}, "v1")


@each_row(
    ("components", "message"),
    [
        ({"A:b": text(), "a:B": text()}, "the same id in DSL v2, 'a_b'"),
        ({"A:b:c": text()}, "two colons"),
        ({":b": text()}, "a part of it is empty"),
        ({"a": text(["b"])}, "'b', which does not exist"),
    ],
)
def test_what_dsl_v2_cannot_have_is_reported(components: dict[str, Any], message: str) -> None:
    with pytest.raises(CompileError, match=message):
        convert_source(canvas(components), "v2")


def test_diagnostics_have_positions_in_dsl_v2() -> None:
    document = canvas({"Message:A": node("Message", {"content": ["{Agent:Gone@content}"]}, parent_id="Loop:B")})
    source = json.dumps(convert_source(document, "v2"), indent=2)
    (gone,) = [d for d in check_canvas(source, CATALOG)[1] if d.code == "reference-unknown-node"]
    assert gone.pointer == "/components/message_a/params/content/0"
    assert source.splitlines()[gone.line - 1].strip() == '"{Agent:Gone@content}"'
    regions = {d.pointer for d in check_canvas(source, CATALOG)[1] if d.code == "region-invalid"}
    assert regions == {"/components/begin_", "/components/message_a"}


def test_dsl_v2_compiles_to_the_same_plan() -> None:
    document = canvas({"Message:A": node("Message", {"content": ["{sys.query}"]})}, globals={"sys.query": ""})
    assert plan_of(convert_source(document, "v2")).canvas_hash == plan_of(document).canvas_hash


def test_other_versions_are_no_dsl_v2() -> None:
    for version in (1, 3, "2", True, 2.0):
        document = {"version": version, **canvas({"a": text()})}
        assert convert_source(document, "v1") == document
