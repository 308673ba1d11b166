"""VariableAssigner: changes variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo

from ragflow_lg.context import RunContext
from ragflow_lg.errors import ComponentError
from ragflow_lg.refs import Template, parse_reference, parse_template
from ragflow_lg.spec import ComponentOutputs, ComponentParams, OptionalReference, component
from ragflow_lg.values import JsonValue, empty_like

__all__ = ["variable_assigner"]

Operator = Literal[
    "overwrite", "set", "clear", "append", "extend", "remove_first", "remove_last", "+=", "-=", "*=", "/="
]

_WITHOUT_PARAMETER = ("clear", "remove_first", "remove_last")
_BY_REFERENCE = ("overwrite", "append", "extend")

NOT_LIST = "ERROR:VARIABLE_NOT_LIST"
NOT_A_LIST = "ERROR:PARAMETER_NOT_LIST"
OTHER_TYPE = "ERROR:PARAMETER_NOT_LIST_ELEMENT_TYPE"
NOT_NUMBER = "ERROR:VARIABLE_NOT_NUMBER or PARAMETER_NOT_NUMBER"
BY_ZERO = "ERROR:DIVIDE_BY_ZERO"


def _template_if_text(value: Any, info: ValidationInfo) -> Any:
    scope = (info.context or {}).get("scope")
    return parse_template(value, scope) if isinstance(value, str) else value


def _blank_as_none(value: Any) -> Any:
    return None if value == "" else value


class Assignment(BaseModel):
    """One change."""

    model_config = ConfigDict(frozen=True, defer_build=True, arbitrary_types_allowed=True)

    variable: OptionalReference = None
    operator: Annotated[Operator | None, BeforeValidator(_blank_as_none)] = None
    parameter: Annotated[Any, BeforeValidator(_template_if_text)] = None


class Params(ComponentParams):
    """Parameters of VariableAssigner."""

    variables: Annotated[list[Assignment], BeforeValidator(lambda v: v if isinstance(v, list) else [])] = Field(
        default_factory=list[Assignment]
    )


class Outputs(ComponentOutputs):
    """``errors``: one code per change that was not possible; the variable is then left as it was."""


@component(
    "VariableAssigner",
    params=Params,
    outputs=Outputs,
    output_names=lambda params: ("errors",),
    description="Change env.* and sys.* variables and outputs of other nodes.",
    source="agent/component/variable_assigner.py",
)
async def variable_assigner(ctx: RunContext, params: Params) -> Outputs:
    """Apply the changes in order. RAGFlow writes an error code into the variable; here it goes to ``errors``."""
    errors: list[str] = []
    for change in params.variables:
        if change.variable is None or change.operator is None:
            raise ComponentError("Variable is not complete.", node=ctx.node.id)
        if change.parameter is None and change.operator not in _WITHOUT_PARAMETER:
            raise ComponentError("Variable is not complete.", node=ctx.node.id)
        current = ctx.value(change.variable)
        parameter = _parameter(ctx, change, current)
        try:
            ctx.assign(change.variable, _OPERATIONS[change.operator](current, parameter))
        except _NotPossibleError as error:
            errors.append(f"{change.variable.text}: {error}")
    return Outputs(errors=errors) if errors else Outputs()


class _NotPossibleError(Exception):
    """A change that the types do not allow."""


def _parameter(ctx: RunContext, change: Assignment, current: JsonValue) -> JsonValue:
    parameter = change.parameter
    if change.operator in _BY_REFERENCE:
        reference = parse_reference(parameter.source) if isinstance(parameter, Template) else None
        if reference is None:
            raise ComponentError(f"{change.operator} needs a reference, not {str(parameter)!r}.", node=ctx.node.id)
        return ctx.value(reference)
    if not isinstance(parameter, Template):
        return parameter
    if change.operator == "set" and not (current is None or isinstance(current, str)):
        return ctx.resolve(parameter)
    return ctx.text(parameter) if change.operator == "set" else ctx.resolve(parameter)


def _append(current: JsonValue, item: JsonValue) -> JsonValue:
    values = _list(current)
    if values and type(values[0]) is not type(item):
        raise _NotPossibleError(OTHER_TYPE)
    return [*values, item]


def _extend(current: JsonValue, items: JsonValue) -> JsonValue:
    values = _list(current)
    if not isinstance(items, list):
        raise _NotPossibleError(NOT_A_LIST)
    if values and any(type(values[0]) is not type(item) for item in items):
        raise _NotPossibleError(OTHER_TYPE)
    return [*values, *items]


def _list(current: JsonValue) -> list[Any]:
    if current is None or current == "":
        return []
    if not isinstance(current, list):
        raise _NotPossibleError(NOT_LIST)
    return current


def _cut(current: JsonValue, part: slice) -> JsonValue:
    if current is not None and not isinstance(current, list):
        raise _NotPossibleError(NOT_LIST)
    return _list(current)[part]


def _computed(current: JsonValue, parameter: JsonValue, compute: Callable[[Any, Any], Any]) -> JsonValue:
    if isinstance(parameter, str):
        parameter = _as_number(parameter)
    for number in (current, parameter):
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise _NotPossibleError(NOT_NUMBER)
    try:
        return compute(current, parameter)
    except ZeroDivisionError:
        raise _NotPossibleError(BY_ZERO) from None
    except OverflowError:
        raise _NotPossibleError(NOT_NUMBER) from None


def _as_number(text: str) -> JsonValue:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


_OPERATIONS: Mapping[str, Callable[[JsonValue, JsonValue], JsonValue]] = {
    "overwrite": lambda v, p: p,
    "set": lambda v, p: p,
    "clear": lambda v, p: empty_like(v),
    "append": _append,
    "extend": _extend,
    "remove_first": lambda v, p: _cut(v, slice(1, None)),
    "remove_last": lambda v, p: _cut(v, slice(None, -1)),
    "+=": lambda v, p: _computed(v, p, lambda a, b: a + b),
    "-=": lambda v, p: _computed(v, p, lambda a, b: a - b),
    "*=": lambda v, p: _computed(v, p, lambda a, b: a * b),
    "/=": lambda v, p: _computed(v, p, lambda a, b: a / b),
}

assert set(_OPERATIONS) == set(get_args(Operator))
