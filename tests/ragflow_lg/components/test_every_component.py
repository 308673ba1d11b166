"""Properties of every component in the catalog, built in or installed."""

import copy
import json
from inspect import iscoroutinefunction
from typing import Any, get_args

import pytest
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from ragflow_lg.base.diagnostics import CODES, Finding
from ragflow_lg.base.errors import ComponentError
from ragflow_lg.catalog import load_catalog
from ragflow_lg.component.plan import PlanNode
from ragflow_lg.component.spec import AnySpec, ComponentParams, Kind, MessageAlternative, Route
from ragflow_lg.dsl.variable_references import ReferenceScope
from ragflow_lg.dsl_compiler import check_canvas
from ragflow_lg.server.assembly.canvas_files import canvas_files
from tests.architecture.sources import ROOT
from tests.fakes.canvas import canvas, node
from tests.fakes.run import bind
from tests.harness.rows import each_row, read_rows

CATALOG = load_catalog()
SPECS = list(CATALOG)
SCOPE = {"scope": ReferenceScope(frozenset({"begin"}))}

HOSTILE: list[Any] = [
    *(None, True, 0, -1, 10**400, 1.5, float("inf"), float("nan")),
    *("", " ", "{begin@x}", "{{{sys.query", "{% for", "\x00\ud800", "x" * 100_000),
    *([], [None], [[]], [{}], ["{sys.query}", 1]),
    *({}, {"": None}, {"value": {"value": []}}, {"type": "object", "properties": 1}),
]

every_component = each_row("spec", SPECS)


def defaults(spec: AnySpec) -> ComponentParams | None:
    """Return the default params, or None if some are required."""
    if any(field.is_required() for field in spec.params.model_fields.values()):
        return None
    return spec.params.model_validate({}, context=SCOPE)


def nodes_of_our_canvases() -> list[Any]:
    """Bind every component of every example and fixture that compiles."""
    nodes: list[Any] = []
    for file in sorted([*canvas_files(ROOT / "examples"), *(ROOT / "tests/fixtures/canvas").rglob("*.json")]):
        plan, _ = check_canvas(file.read_bytes(), CATALOG)
        nodes += plan.nodes.values() if plan else []
    return nodes


@every_component
def test_it_has_a_description_and_a_kind(spec: AnySpec) -> None:
    assert spec.description.endswith(".")
    assert spec.source == "" or spec.source.startswith(("agent/", "internal/"))
    assert spec.kind in get_args(Kind)
    assert spec.params.__doc__
    assert spec.outputs.__doc__
    assert iscoroutinefunction(spec.run)
    assert spec.run.__doc__


@every_component
def test_its_params_have_a_json_schema(spec: AnySpec) -> None:
    schema = json.loads(json.dumps(spec.params.model_json_schema(), allow_nan=False))
    Draft202012Validator.check_schema(schema)
    assert ComponentParams.model_fields.keys() <= schema["properties"].keys()


@every_component
def test_its_outputs_have_defaults_and_survive_json(spec: AnySpec) -> None:
    outputs = spec.outputs()
    encoded = json.loads(json.dumps(outputs.model_dump(mode="json"), allow_nan=False))
    assert spec.outputs.model_validate(encoded) == outputs


@every_component
def test_its_defaults_are_valid_and_survive_json(spec: AnySpec) -> None:
    params = defaults(spec)
    if params is None:
        return
    encoded = json.loads(json.dumps(params.model_dump(mode="json"), allow_nan=False))
    assert spec.params.model_validate(encoded, context=SCOPE).model_dump(mode="json") == encoded


@each_row("node", nodes_of_our_canvases())
def test_params_survive_json(node: PlanNode) -> None:
    encoded = json.loads(json.dumps(node.params.model_dump(mode="json"), allow_nan=False))
    scope = {"scope": ReferenceScope(frozenset(r.node for r, _ in node.references))}
    assert type(node.params).model_validate(encoded, context=scope).model_dump(mode="json") == encoded


@every_component
def test_an_unknown_key_is_preserved_and_reported(spec: AnySpec) -> None:
    if defaults(spec) is None or spec.params.model_fields.keys() == ComponentParams.model_fields.keys():
        return
    params = {"surely_unknown": 1}
    assert spec.params.model_validate(params, context=SCOPE).__pydantic_extra__ == params
    _, diagnostics = check_canvas(canvas({"X:0": node(spec.name, params)}), CATALOG)
    findings = [(d.severity, d.pointer) for d in diagnostics if d.code == "params-unknown"]
    assert ("warning", "/components/X:0/obj/params/surely_unknown") in findings


@every_component
def test_rewriting_is_pure_and_idempotent(spec: AnySpec) -> None:
    if spec.rewrite is None:
        return
    for name in spec.params.model_fields:
        for value in HOSTILE:
            params_ = {name: value}
            before = repr(params_)
            try:
                once = spec.rewrite(params_)
            except ComponentError:
                continue
            assert repr(params_) == before
            assert repr(dict(spec.rewrite(copy.deepcopy(once)))) == repr(dict(once))


@every_component
def test_hostile_params_are_rejected_or_valid(spec: AnySpec) -> None:
    for name in spec.params.model_fields:
        for value in HOSTILE:
            params_ = spec.rewrite({name: value}) if spec.rewrite else {name: value}
            try:
                params = spec.params.model_validate(params_, context=SCOPE)
            except ValidationError:
                continue
            ask_everything(spec, params)


@each_row(("name", "params", "place"), read_rows("invalid_params"))
def test_invalid_params_are_refused_at_their_place(name: str, params: dict[str, Any], place: list[str | int]) -> None:
    spec = CATALOG.get(name)
    assert spec is not None
    with pytest.raises(ValidationError) as caught:
        bind(spec, params)
    assert list(caught.value.errors()[0]["loc"]) == place


def ask_everything(spec: AnySpec, params: ComponentParams) -> None:
    """Evaluate everything that the compiler reads from a spec."""
    limit = spec.limit_s(params)
    assert limit is None or limit > 0
    assert all(isinstance(route, Route) for route in spec.routes(params))
    assert all(isinstance(shown, MessageAlternative) for shown in spec.shows(params))
    assert isinstance(spec.streams(params), bool)
    assert all(isinstance(name, str) for name in spec.output_names(params) or ())
    for finding in spec.lint(params):
        assert isinstance(finding, Finding)
        assert finding.code in CODES
