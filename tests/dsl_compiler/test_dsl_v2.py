"""DSL v2: what a document becomes, where its diagnostics point, and what is refused."""

import json
from typing import Any

import pytest

from ragflow_lg.base.errors import CompileError
from ragflow_lg.dsl_compiler import check_canvas, upgrade_source
from tests.fakes.canvas import CATALOG, canvas, plan_of, switch, text
from tests.harness.rows import each_row, read_rows

BEGIN: dict[str, Any] = {"id": "begin_", "name": "Begin", "downstream": ["switch_abc"], "params": {}}


def entry(name: str, params: dict[str, Any], *downstream: str) -> dict[str, Any]:
    return {"name": name, "params": params, "downstream": list(downstream)}


def flat(components: dict[str, Any]) -> dict[str, Any]:
    return {"version": 2, "components": components}


def test_the_flat_form() -> None:
    params = switch(["Message:Yes"], ["Message:No"])["obj"]["params"]
    document = flat(
        {
            "switch_abc": entry("Switch", params, "message_yes", "message_no"),
            "begin_": BEGIN,
            "message_yes": entry("Message", {"content": ["Yes"]}),
            "message_no": entry("Message", {"content": ["{begin@a} {Switch:aBc@b}"]}),
        }
    )
    wrapped = upgrade_source({"title": "A", "dsl": document}, CATALOG).document
    converted = wrapped["dsl"]
    assert (wrapped["title"], converted) == ("A", upgrade_source(document, CATALOG).document)
    # The letter case is that of references and routes.
    assert list(converted["components"]) == ["begin", "Message:No", "Message:Yes", "Switch:aBc"]
    assert converted["components"]["Switch:aBc"]["upstream"] == ["begin"]
    assert converted["components"]["Switch:aBc"]["downstream"] == ["Message:Yes", "Message:No"]
    assert {edge["sourceHandle"] for edge in converted["graph"]["edges"]} == {"start", "Case 1", "end_cpn_ids"}


def test_dsl_v2_compiles_to_the_same_plan() -> None:
    params = text()["obj"]["params"]
    document = flat({"begin_": {**BEGIN, "downstream": ["a_b"]}, "a_b": entry("StringTransform", params)})
    assert plan_of(document).canvas_hash == plan_of(upgrade_source(document, CATALOG).document).canvas_hash
    assert [node.id for node in plan_of(document).nodes.values()] == ["begin", "A:b"]


def test_diagnostics_have_positions_in_dsl_v2() -> None:
    document = flat(
        {"begin_": {**BEGIN, "downstream": ["message_a"]}, "message_a": entry("Message", {"content": ["{Agent:B@c}"]})}
    )
    source = json.dumps({"dsl": document}, indent=2)
    (gone,) = [d for d in check_canvas(source, CATALOG)[1] if d.code == "reference-unknown-node"]
    assert gone.pointer == "/dsl/components/message_a/params/content/0"
    assert source.splitlines()[gone.line - 1].strip() == '"{Agent:B@c}"'


@each_row(("components", "message"), read_rows("dsl_v2_errors"))
def test_what_is_wrong_is_reported(components: Any, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        upgrade_source(flat(components), CATALOG)


def test_other_keys_are_reported() -> None:
    with pytest.raises(CompileError, match="no 'v3' here, only: version, components"):
        upgrade_source({**flat({"a_b": {"name": "A"}}), "v3": {}}, CATALOG)
    document: dict[str, Any] = {
        **flat({"begin_": {**BEGIN, "downstream": []}}),
        "v1": {},
    }  # an earlier version wrote it
    ignored = [(d.severity, d.pointer) for d in check_canvas(document, CATALOG)[1] if "earlier" in d.message]
    assert ignored == [("warning", "/v1")]


def test_other_versions_are_no_dsl_v2() -> None:
    for version in (1, 3, "2", True, 2.0):
        document = {"version": version, **canvas({"a": text()})}
        assert upgrade_source(document, CATALOG).document == document
