from typing import Any

from ragflow_lg.catalog import load_catalog
from ragflow_lg.dsl.variable_references import Reference, parse_reference
from ragflow_lg.dsl_compiler.compiler import run_passes
from ragflow_lg.dsl_compiler.diagnostics import Reporter
from ragflow_lg.dsl_compiler.draft import Draft
from ragflow_lg.dsl_compiler.reference_types import ReferenceTypes
from tests.fakes.canvas import canvas, node
from tests.harness.rows import each_row, read_rows

FORM = {"name": {"name": "Name", "type": "line"}, "age": {"name": "Age", "type": "integer"}}


SCHEMA = {"type": "object", "properties": {"rows": {"type": "array", "items": {"type": "string"}}}}
ITERATION = {"items_ref": "llm@structured.rows", "outputs": {"all": {"ref": "inner@content"}}}
OUTPUTS = {"n": {"type": "Array<Number>", "value": None}}
CHANGE = {"variable": "env.changed", "operator": "set", "parameter": "2"}
ROUNDS = {"loop_variables": [{"variable": "count", "input_mode": "constant", "value": 1, "type": "number"}]}


def types_of_values() -> ReferenceTypes:
    components = {
        "llm": node("LLM", {"outputs": {"structured": SCHEMA}}, ["split"]),
        "split": node("StringTransform", {"method": "split", "split_ref": "sys.query"}, ["form"]),
        "form": node("UserFillUp", {"inputs": FORM}, ["it"]),
        "it": node("Iteration", ITERATION, ["loop"]),
        "item": node("IterationItem", {}, ["inner"], parent_id="it"),
        "inner": node("Message", {"content": ["x"]}, parent_id="it"),
        "loop": node("Loop", ROUNDS, ["code"]),
        "in": node("LoopItem", {}, ["set"], parent_id="loop"),
        "set": node("VariableAssigner", {"variables": [CHANGE]}, parent_id="loop"),
        "code": node("CodeExec", {"lang": "python", "script": "def main(): return [1]", "outputs": OUTPUTS}, ["m"]),
        "m": node("Message", {"content": ["Hi"]}),
    }
    document = canvas(components, ["llm"])
    document["variables"] = {
        "word": {"type": "string", "value": "a"},
        "list": {"type": "array", "value": [1]},
        "changed": {"type": "number", "value": 1},
    }
    return ReferenceTypes(run_passes(Draft(document, "", load_catalog()), Reporter()))


def parse(text: str) -> Reference:
    reference = parse_reference(f"{{{text}}}")
    assert reference is not None
    return reference


@each_row(("reference", "schema"), read_rows("reference_types"))
def test_the_schema_of_a_value(reference: str, schema: dict[str, Any] | None) -> None:
    assert types_of_values().find(parse(reference)) == schema
