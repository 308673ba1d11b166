"""Loop: repeat the body until its conditions are met."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from types import NoneType
from typing import Annotated, Any, Literal, TypeAlias, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from ragflow_lg.base.diagnostics import Finding
from ragflow_lg.base.errors import ComponentError
from ragflow_lg.base.values import JsonValue, empty_of_type, to_json
from ragflow_lg.base.worker_tasks import measure
from ragflow_lg.component.decorator import RunContext, component
from ragflow_lg.component.spec import ComponentOutputs, ComponentParams, RegionRules
from ragflow_lg.dsl.conditions import parse_condition
from ragflow_lg.dsl.loop_operators import NAMES, OPERATORS, holds
from ragflow_lg.dsl.old_values import loop_condition_holds
from ragflow_lg.dsl.value_types import schema_of_name
from ragflow_lg.dsl.variable_references import Reference, parse_reference

MAX_COMPARED = 64 * 1024 * 1024
"""Maximum number of characters that the conditions compare before one round."""

ENTRY_COST = 16
"""How many characters of a text can be compared in the time for one entry of a list."""

_SMALL = frozenset({int, float, bool, NoneType})
"""Types of values whose comparison costs next to nothing, whatever they are compared with."""

_OPPOSITE = {"=": "≠", "≠": "=", ">": "≤", "<": "≥", "≥": "<", "≤": ">", "contains": "not contains"}
_BARE_NAME = re.compile(r"\{\s*([A-Za-z_]\w*)\s*\}")


def _with_references(row: Any) -> Any:
    """Read the value of a row in mode ``variable`` as a reference."""
    if not isinstance(row, dict):
        return row
    fields = cast("dict[str, Any]", row)
    value = fields.get("value")
    if fields.get("input_mode") == "variable" and isinstance(value, str):
        return {**fields, "value": parse_reference(value) or value}
    return fields


def _as_reference(variable: Any) -> Any:
    """Read the left side of a condition as a reference; a bare name stays text and refers to a Loop variable."""
    return parse_reference(variable) or variable.strip("{} ") if isinstance(variable, str) else variable


class _Row(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True, defer_build=True, arbitrary_types_allowed=True)

    input_mode: str | None = Field(None, examples=["constant", "variable"])
    value: Any = None


class LoopVariable(_Row):
    """A variable of the Loop, which becomes an output. In mode ``variable``, ``value`` is a reference."""

    variable: str | None = None
    type: str | None = None


class LoopCondition(_Row):
    """A condition that ends the Loop. ``variable`` is a reference or the name of a variable of the Loop."""

    variable: Annotated[Reference | str | None, BeforeValidator(_as_reference)] = None
    operator: str | None = Field(None, examples=list(NAMES))


Variables: TypeAlias = list[Annotated[LoopVariable, BeforeValidator(_with_references)]]
Conditions: TypeAlias = list[Annotated[LoopCondition, BeforeValidator(_with_references)]]


class Params(ComponentParams):
    """Parameters of Loop."""

    loop_variables: Variables = Field(default_factory=list[LoopVariable])
    loop_termination_condition: Conditions = Field(default_factory=list[LoopCondition])
    """Tested before each round, including the first."""
    logical_operator: Literal["and", "or"] | None = "and"
    maximum_loop_count: Annotated[int, Field(ge=0)] = 0
    """Maximum number of rounds; 0 for none."""


class Outputs(ComponentOutputs):
    """One output per loop variable."""


def _named_variables(params: Params) -> Iterable[LoopVariable]:
    """Yield the variables that have a name; the editor stores untouched rows without one."""
    return (row for row in params.loop_variables if row.variable)


def _names(params: Params) -> Iterable[str]:
    return [str(row.variable) for row in _named_variables(params)]


def _is_incomplete(row: LoopVariable) -> bool:
    """Return whether the row lacks a value that its mode requires."""
    if row.input_mode not in ("constant", "variable"):
        return False
    is_odd = row.input_mode == "variable" and not isinstance(row.value, Reference)
    return row.value is None or not row.type or is_odd


def _lint(params: Params) -> Iterable[Finding]:
    names = set(_names(params))
    for index, row in enumerate(params.loop_termination_condition):
        path = ("loop_termination_condition", index)
        if not row.variable or not row.operator:
            yield Finding("params-invalid", "error", path, "The condition is incomplete.", "Set variable and operator.")
        elif row.operator not in OPERATORS:
            hint = f"Use one of {', '.join(sorted(OPERATORS))}."
            yield Finding("params-invalid", "error", (*path, "operator"), f"Unknown operator {row.operator!r}.", hint)
        elif row.input_mode not in (None, "", "constant", "variable"):
            message = f"The input mode {row.input_mode!r} is neither constant nor variable."
            yield Finding("params-invalid", "error", (*path, "input_mode"), message, "Use constant or variable.")
        elif isinstance(row.variable, str) and row.variable not in names:
            message = f"The Loop has no variable {row.variable!r}; its value will be empty."
            yield Finding(
                "reference-unknown-output",
                "warning",
                (*path, "variable"),
                message,
                "Declare the variable in loop_variables.",
            )
    for index, row in enumerate(params.loop_variables):
        if row.variable and _is_incomplete(row):
            message = f"The loop variable {row.variable!r} lacks a value, a reference or a type, so the Loop will fail."
            yield Finding("params-invalid", "warning", ("loop_variables", index), message, "Complete the row.")
        if not row.variable:
            yield Finding(
                "params-unknown",
                "warning",
                ("loop_variables", index),
                "A loop variable has no name.",
                "Remove the row.",
            )
    if params.maximum_loop_count == 0:
        message = "maximum_loop_count is 0, so the body never runs."
        yield Finding(
            "params-unknown", "warning", ("maximum_loop_count",), message, "Set the maximum number of rounds."
        )


def _differences(params: Params) -> Iterable[Finding]:
    rounds = params.maximum_loop_count
    if not params.loop_termination_condition and params.logical_operator != "or" and rounds:
        yield Finding(
            "differs-loop-no-condition",
            "warning",
            ("loop_termination_condition",),
            f"The Loop has no conditions: it runs {rounds} rounds here, and none in RAGFlow.",
        )


def _has_next_round(ctx: RunContext, params: Params) -> bool:
    """Return whether neither the count nor the conditions end the Loop.

    An empty list of conditions never ends it. In RAGFlow ``all`` of no conditions are met before the first round.
    """
    if ctx.round.index >= params.maximum_loop_count:
        _note_limit(ctx, params)
        return False
    if not params.loop_termination_condition:
        return params.logical_operator == "or" or not ctx.compatibility.skip_unconditional_loops
    return not _is_done(ctx, params)


def _is_done(ctx: RunContext, params: Params) -> bool:
    results = _results(ctx, params.loop_termination_condition)
    return any(results) if params.logical_operator == "or" else all(results)


def _note_limit(ctx: RunContext, params: Params) -> None:
    """Report that the count ends the Loop, not its conditions: what follows may expect that they are met."""
    try:
        is_done = not params.loop_termination_condition or _is_done(ctx, params)
    except ComponentError:
        is_done = False
    if not is_done and params.maximum_loop_count:
        rounds = params.maximum_loop_count
        ctx.notice(f"The Loop ends after {rounds} rounds (maximum_loop_count), before its conditions are met.")


def _results(ctx: RunContext, rows: Iterable[LoopCondition]) -> Iterator[bool]:
    """Yield whether each condition is met."""
    compared = 0
    for row in rows:
        left, right = _operands(ctx, row)
        if type(left) not in _SMALL:
            weight = ENTRY_COST if isinstance(left, list | dict) else 1
            compared += weight * measure((left, right), MAX_COMPARED)
            if compared > MAX_COMPARED:
                raise ComponentError(f"The conditions compare more than {MAX_COMPARED:,} characters.", node=ctx.node.id)
        try:
            yield (loop_condition_holds if ctx.compatibility.old_values else holds)(left, row.operator or "", right)
        except (TypeError, ValueError) as error:
            raise ComponentError(f"A condition cannot be tested: {error}", node=ctx.node.id) from None


@lru_cache(4096)
def _own_variable(loop: str, name: str) -> Reference:
    return Reference("output", f"{loop}@{name}", name, loop)


def _operands(ctx: RunContext, row: LoopCondition) -> tuple[JsonValue, JsonValue]:
    variable = row.variable
    if not isinstance(variable, Reference):
        variable = _own_variable(ctx.node.id, str(variable))
    value = ctx.value(row.value) if isinstance(row.value, Reference) else row.value
    return ctx.value(variable), value


def _tests(params: Params) -> Iterable[Reference]:
    for condition in params.loop_termination_condition:
        for value in (condition.variable, condition.value):
            if isinstance(value, Reference):
                yield value
        if isinstance(condition.variable, str):
            yield Reference("alias", condition.variable, condition.variable)


def _rewrite(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Read the simplified ``condition``, which states when to continue, and ``max_iterations``."""
    if "condition" not in params and "max_iterations" not in params:
        return params
    rest = {k: v for k, v in params.items() if k not in ("condition", "max_iterations")}
    if "max_iterations" in params:
        rest.setdefault("maximum_loop_count", params["max_iterations"])
    text = params.get("condition")
    condition = parse_condition(_BARE_NAME.sub(r"{env.\1}", text)) if isinstance(text, str) else None
    if condition is None:
        return rest if text in (None, "") else {**rest, "loop_termination_condition": text}
    logical, items = condition
    rest["logical_operator"] = "or" if logical == "and" else "and"
    rest["loop_termination_condition"] = [
        {"variable": ref.strip("{} "), "operator": _OPPOSITE[operator], "value": literal}
        for ref, operator, literal in items
    ]
    return rest


@component(
    "Loop",
    kind="region",
    params=Params,
    outputs=Outputs,
    rewrite=_rewrite,
    lint=_lint,
    output_names=_names,
    output_schemas=lambda params: {str(row.variable): schema_of_name(row.type) for row in _named_variables(params)},
    timeout_s=None,
    shows_default=True,
    differences=_differences,
    region=RegionRules(
        items=lambda ctx, params: None,
        has_next_round=_has_next_round,
        max_rounds=lambda params: params.maximum_loop_count,
        tests=_tests,
        keeps_values=True,
        leaves_at_exit=True,
    ),
    effects="none",
    description="Repeat the nodes inside until a condition is met.",
    source="agent/component/loop.py",
)
async def loop(ctx: RunContext, params: Params) -> Outputs:
    """Return the initial values: a constant, the value of a reference, or the empty value of the type."""
    ctx.report_inputs({})
    outputs: dict[str, JsonValue] = {}
    is_old = ctx.compatibility.old_values
    for row in params.loop_variables if is_old else _named_variables(params):
        is_typed = bool(row.variable) and row.input_mode in ("constant", "variable")
        if _is_incomplete(row) or (is_old and not is_typed):
            raise ComponentError("Loop Variable is not complete.", node=ctx.node.id)
        if row.input_mode == "variable":
            outputs[str(row.variable)] = ctx.value(row.value)
        elif row.input_mode == "constant":
            outputs[str(row.variable)] = to_json(row.value)
        else:
            outputs[str(row.variable)] = empty_of_type(row.type or "")
    return Outputs(**outputs)
