import json
from typing import Any

import pytest

from ragflow_lg.base.errors import CompileError
from ragflow_lg.dsl_compiler.ragflow_1 import examine, fix_canvas
from ragflow_lg.server.assembly.library import catalog
from tests.dsl_compiler.ragflow_1.short_canvas import expand
from tests.harness.rows import each_row

MESSAGE: list[Any] = ["Message", {"content": ["x"]}, []]


ODD: list[dict[str, Any]] = [
    {"__graph_only__": True, "m": ["Message", {"content": ["{result}"]}, []]},
    {"v": ["VariableAssigner", {"variables": [{"operator": ["x"], "variable": {}}, None, 5]}, ["m"]], "m": MESSAGE},
    {"v": ["VariableAggregator", {"groups": [{"group_name": []}]}, ["m"]], "m": MESSAGE},
    {"Loop:A": ["Loop", {"loop_variables": [{"variable": []}], "loop_termination_condition": 5}, ["m"]], "m": MESSAGE},
    {"w": ["Switch", {"conditions": [None, 5, {"items": "x"}], "end_cpn_ids": {}}, ["m"]], "m": MESSAGE},
    {"l": ["LLM", {"temperature": "1e999", "temperatureEnabled": True, "prompts": [5]}, ["m"]], "m": MESSAGE},
    {"i": ["Invoke", None, ["m"]], "m": ["Message", {"content": "\ud800 { sys.query }"}, []]},
]


def rules_of(source: Any) -> set[str]:
    return {finding.rule.id for finding in examine(source, catalog(), every_rule=True)}


@each_row("short", ODD)
def test_values_of_odd_types_are_examined_and_fixed(short: dict[str, Any]) -> None:
    document = expand(short)
    assert examine(document, catalog(), every_rule=True)
    text, _ = fix_canvas(json.dumps(document), catalog())
    text.encode()
    json.loads(text)


@each_row("value", [5, {"a": 1}, ["m@P"], True])
def test_a_value_that_is_no_text_is_none(value: Any) -> None:
    llm: list[Any] = ["LLM", {"llm_id": value, "visual_files_var": value}, ["m"]]
    message: list[Any] = ["Message", {"content": ["x"], "output_format": value}, []]
    found = rules_of(expand({"begin": ["Begin", {"prologue": value}, ["l"]], "l": llm, "m": message}))
    assert found & {"model-missing", "prologue", "visual-files-var", "message-output-format"} == {"model-missing"}


def test_a_long_blank_between_braces_takes_linear_time() -> None:
    long = {"l": ["ListOperations", {"query": "{" + " " * 100_000, "operations": "head"}, ["m"]], "m": MESSAGE}
    assert "list-query-braced" not in rules_of(expand(long))


def test_programs_and_texts_outside_of_an_iteration_stay_as_they_are() -> None:
    program = "def main(x):\n    return f'{result} { sys.platform }'"
    document = expand(
        {
            "c": ["CodeExec", {"lang": "python", "script": program, "arguments": {}}, ["m"]],
            "m": ["Message", {"content": ["a {result}"]}, []],
        }
    )
    fixed = json.loads(fix_canvas(json.dumps(document), catalog())[0])
    assert fixed["components"] == document["components"]


def test_one_change_does_not_undo_another() -> None:
    inside: list[Any] = ["StringTransform", {"method": "merge", "script": "x"}, ["m"], {"parent_id": "Loop:A"}]
    short: dict[str, Any] = {
        "Loop:A": ["Loop", {"maximum_loop_count": 2}, []],
        "s": inside,
        "m": [*MESSAGE, {"upstream": ["s"]}],
    }
    text, _ = fix_canvas(json.dumps(expand(short)), catalog())
    assert rules_of(text) & {"unknown-upstream", "edges-from-upstream"} == set()


def test_a_pipeline_is_no_canvas_of_an_agent() -> None:
    document: dict[str, Any] = {
        "components": {"File": {"obj": {"component_name": "File", "params": {}}, "downstream": []}}
    }
    with pytest.raises(CompileError, match="ingestion pipeline"):
        examine({**document, "canvas_category": "dataflow_canvas"}, catalog())


def test_the_indentation_of_a_file_stays() -> None:
    document = expand({"m": ["Message", {"content": ["{ sys.query }"]}, []]})
    text, mended = fix_canvas(json.dumps(document, indent="\t"), catalog())
    assert [finding.rule.id for finding in mended] == ["braces-with-spaces"]
    assert text.splitlines()[1].startswith('\t"')


@pytest.mark.parametrize("is_graph_only", [False, True])
def test_the_default_category_is_written_where_the_editor_reads_it(is_graph_only: bool) -> None:
    rows = {name: {"description": "", "examples": [], "to": ["m"]} for name in ("a", "b")}
    document = expand({"c": ["Categorize", {"category_description": rows}, ["m"]], "m": MESSAGE})
    form = {"items": [{"name": name, "uuid": name, **row} for name, row in rows.items()]}
    document["graph"]["nodes"][1]["data"]["form"] = form
    document["components"] = {} if is_graph_only else document["components"]
    assert "categorize-fallback" in rules_of(document)
    fixed = json.loads(fix_canvas(json.dumps(document), catalog())[0])
    assert fixed["components"]["c"]["obj"]["params"]["default_category"] == "b"
    assert fixed["graph"]["nodes"][1]["data"]["form"] == {**form, "default_category": "b"}
