"""VariableAssigner: change variables."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from ragflow_lg.base.diagnostics import Finding
from ragflow_lg.base.errors import ComponentError
from ragflow_lg.base.lenient_values import as_list
from ragflow_lg.base.values import JsonValue, empty_like, to_json_with_size, to_number
from ragflow_lg.component.decorator import RunContext, component
from ragflow_lg.component.spec import ComponentOutputs, ComponentParams, OptionalReference, TemplateOrValue
from ragflow_lg.dsl import old_values
from ragflow_lg.dsl.variable_references import Reference, Template, parse_reference, scope_of

Operator: TypeAlias = Literal[
    "overwrite", "set", "clear", "append", "extend", "remove_first", "remove_last", "+=", "-=", "*=", "/="
]

WITHOUT_PARAMETER = ("clear", "remove_first", "remove_last")
BY_REFERENCE = ("overwrite", "append", "extend")
CALCULATING = ("+=", "-=", "*=", "/=")

MAX_COPIED = 2_000_000
"""Maximum number of entries that the changes of one node may copy, which takes about a second."""


# RAGFlow's error codes.
VARIABLE_NOT_LIST = "ERROR:VARIABLE_NOT_LIST"
PARAMETER_NOT_LIST = "ERROR:PARAMETER_NOT_LIST"
OTHER_ELEMENT_TYPE = "ERROR:PARAMETER_NOT_LIST_ELEMENT_TYPE"
NOT_NUMBER = "ERROR:VARIABLE_NOT_NUMBER or PARAMETER_NOT_NUMBER"
DIVIDE_BY_ZERO = "ERROR:DIVIDE_BY_ZERO"


def _read_operator(value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
    """Read the operator. RAGFlow also has unknown ones, which assign null."""
    if isinstance(value, str) and value and (scope := scope_of(info)) is not None and scope.is_old:
        return value
    return handler(value or None)


def _read_reference(value: Any, info: ValidationInfo) -> Any:
    """Read a bare reference if the operator requires one, or calculates; no number looks like a reference."""
    wants_reference = info.data.get("operator") in (*BY_REFERENCE, *CALCULATING)
    return (parse_reference(value) if wants_reference and isinstance(value, str) else None) or value


class Assignment(BaseModel):
    """One change."""

    model_config = ConfigDict(frozen=True, defer_build=True, arbitrary_types_allowed=True)

    variable: OptionalReference = None
    """The variable to change."""
    operator: Annotated[Operator | None, WrapValidator(_read_operator)] = None
    parameter: Annotated[TemplateOrValue, BeforeValidator(_read_reference)] = None
    """A value or text with references; a reference for overwrite, append and extend; both for ``+=`` and the like."""


class Params(ComponentParams):
    """Parameters of VariableAssigner."""

    variables: Annotated[list[Assignment], BeforeValidator(as_list)] = Field(default_factory=list[Assignment])


class Outputs(ComponentOutputs):
    """``errors``: one line ``variable: code`` per failed change; absent if all changes succeeded."""


_NO_ERRORS = Outputs()


def _lint(params: Params) -> Iterable[Finding]:
    for index, change in enumerate(params.variables):
        problem = ""
        if change.variable is None or change.operator is None:
            problem = "The change is incomplete"
        elif change.parameter is None and change.operator not in WITHOUT_PARAMETER:
            problem = f"{change.operator} needs a parameter"
        elif change.operator in BY_REFERENCE and not isinstance(change.parameter, Reference):
            problem = f"{change.operator} needs a reference, not {str(change.parameter)!r:.60}"
        elif change.operator not in OPERATIONS:
            message = f"There is no operator {change.operator!r:.60}, so the variable becomes null."
            hint = f"Use one of {', '.join(OPERATIONS)}."
            yield Finding("params-invalid", "warning", ("variables", index, "operator"), message, hint)
            continue
        if problem:
            message = f"{problem}, so the node will fail."
            yield Finding("params-invalid", "warning", ("variables", index), message, "Complete or remove the row.")
        elif change.operator in CALCULATING and not _may_be_number(change.parameter):
            message = f"{change.operator} needs a number, not {str(change.parameter)!r:.60}; nothing will change."
            hint = "Write a number, or refer to one, such as {env.name}."
            yield Finding("params-invalid", "warning", ("variables", index, "parameter"), message, hint)


def _may_be_number(parameter: Any) -> bool:
    if isinstance(parameter, Template):
        return bool(parameter.references) or to_number(parameter.source) is not None
    return isinstance(parameter, Reference) or to_number(parameter) is not None


@component(
    "VariableAssigner",
    params=Params,
    outputs=Outputs,
    output_names=lambda params: ("errors",),
    writes=lambda params: (change.variable for change in params.variables if change.variable is not None),
    lint=_lint,
    effects="none",
    description="Change env.* and sys.* variables and outputs of other nodes.",
    source="agent/component/variable_assigner.py",
)
async def variable_assigner(ctx: RunContext, params: Params) -> Outputs:
    """Apply the changes in order. RAGFlow writes error codes into the variable; here they go to ``errors``."""
    ctx.report_inputs({})
    errors: list[str] = []
    copied = 0
    for change in params.variables:
        if change.variable is None or change.operator is None:
            raise ComponentError("Variable is not complete.", node=ctx.node.id)
        if change.parameter is None and change.operator not in WITHOUT_PARAMETER:
            raise ComponentError("Variable is not complete.", node=ctx.node.id)
        current = ctx.value(change.variable)
        try:
            if ctx.compatibility.old_values:
                changed = _change_as_before(ctx, change, current)
            else:
                changed = OPERATIONS[change.operator](current, _parameter(ctx, change, current))
        except _InvalidChangeError as error:
            errors.append(f"{change.variable.text}: {error}")
            continue
        value, chars, entries = to_json_with_size(changed)
        # Bounded at every step, because each change may double the result of the previous one.
        copied += entries + chars // 256
        if copied > MAX_COPIED:
            raise ComponentError(f"The changes copy more than {MAX_COPIED:,} entries.", node=ctx.node.id)
        ctx.assign(change.variable, value)
    return Outputs.model_validate({"errors": errors}) if errors else _NO_ERRORS


class _InvalidChangeError(Exception):
    """A change that the value types do not allow."""


def _change_as_before(ctx: RunContext, change: Assignment, current: JsonValue) -> JsonValue:
    """Return the new value of a variable as RAGFlow has it. Only ``set`` fills in references, in a text or null."""
    if change.operator == "clear":
        return empty_like(current)
    if change.operator in BY_REFERENCE:
        return old_values.assign(current, change.operator, _parameter(ctx, change, current))
    parameter = change.parameter
    if change.operator == "set" and (current is None or isinstance(current, str)):
        if not isinstance(parameter, Template):
            raise ComponentError(f"A text cannot be set to {parameter!r:.60}.", node=ctx.node.id)
        return ctx.text(old_values.close_gaps(parameter))
    text = str(parameter) if isinstance(parameter, Template | Reference) else parameter
    return old_values.assign(current, change.operator or "", text)


def _parameter(ctx: RunContext, change: Assignment, current: JsonValue) -> JsonValue:
    parameter = change.parameter
    if change.operator in BY_REFERENCE:
        if not isinstance(parameter, Reference):
            raise ComponentError(f"{change.operator} needs a reference, not {str(parameter)!r}.", node=ctx.node.id)
        return ctx.value(parameter)
    if isinstance(parameter, Reference):
        return ctx.value(parameter)
    if change.operator == "set" and isinstance(parameter, Template) and (current is None or isinstance(current, str)):
        return ctx.text(parameter)
    return ctx.resolve(parameter)


def _as_list(current: JsonValue) -> list[Any]:
    if current is None:
        return []
    if not isinstance(current, list):
        raise _InvalidChangeError(VARIABLE_NOT_LIST)
    return cast("list[Any]", current)


def _new_items(name: Operator, values: Sequence[Any], parameter: JsonValue) -> list[Any]:
    """Return what an operator adds to a list."""
    new_items = [parameter] if name == "append" else parameter
    if not isinstance(new_items, list):
        raise _InvalidChangeError(PARAMETER_NOT_LIST)
    if values and not all(_is_alike(item, values[0]) for item in new_items):
        raise _InvalidChangeError(OTHER_ELEMENT_TYPE)
    return new_items


def _is_alike(item: Any, first: Any) -> bool:
    """Return whether an item has the type of the first one. ``9`` and ``9.5`` are both numbers."""
    return isinstance(item, type(first)) or {type(item), type(first)} == {int, float}


def _grow(name: Operator) -> Callable[[JsonValue, JsonValue], JsonValue]:
    def operate(current: JsonValue, parameter: JsonValue) -> JsonValue:
        values = _as_list(current)
        return [*values, *_new_items(name, values, parameter)]

    return operate


def _shorten(part: slice) -> Callable[[JsonValue, JsonValue], JsonValue]:
    def operate(current: JsonValue, parameter: JsonValue) -> JsonValue:
        return current if current == "" or current == {} else _as_list(current)[part]  # as in RAGFlow

    return operate


def _compute(compute: Callable[[Any, Any], float]) -> Callable[[JsonValue, JsonValue], JsonValue]:
    def operate(current: JsonValue, parameter: JsonValue) -> JsonValue:
        left, right = _as_number(current), _as_number(parameter)
        for operand in (left, right):
            if isinstance(operand, bool) or not isinstance(operand, int | float):
                raise _InvalidChangeError(NOT_NUMBER)
        try:
            result = compute(left, right)
            # Integers of more than 64 bits cannot be stored in a checkpoint, so they become floats.
            result = float(result) if abs(result) >= 2**63 else result
        except ZeroDivisionError:
            raise _InvalidChangeError(DIVIDE_BY_ZERO) from None
        except OverflowError:
            raise _InvalidChangeError(NOT_NUMBER) from None
        if not math.isfinite(result):
            raise _InvalidChangeError(NOT_NUMBER)
        return result

    return operate


def _as_number(value: JsonValue) -> JsonValue:
    """Return the number in a string, or any other value unchanged."""
    number = to_number(value) if isinstance(value, str) else None
    return value if number is None else number


def _set(current: JsonValue, parameter: JsonValue) -> JsonValue:
    """Return the parameter; a boolean stays one, although a canvas can only write ``true`` as text."""
    truth = {"true": True, "false": False}.get(parameter.strip().lower()) if isinstance(parameter, str) else None
    return truth if isinstance(current, bool) and truth is not None else parameter


OPERATIONS: Mapping[Operator, Callable[[JsonValue, JsonValue], JsonValue]] = {
    "overwrite": lambda current, parameter: parameter,
    "set": _set,
    "clear": lambda current, parameter: empty_like(current),
    "append": _grow("append"),
    "extend": _grow("extend"),
    "remove_first": _shorten(slice(1, None)),
    "remove_last": _shorten(slice(-1)),
    "+=": _compute(operator.add),
    "-=": _compute(operator.sub),
    "*=": _compute(operator.mul),
    "/=": _compute(lambda current, parameter: current / parameter),
}
