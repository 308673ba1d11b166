"""ListOperations: pick, filter, sort or de-duplicate the items of a list."""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
)

from ragflow_lg.base.errors import ComponentError
from ragflow_lg.base.values import JsonValue, to_number, to_text
from ragflow_lg.component.decorator import RunContext, component
from ragflow_lg.component.spec import ComponentOutputs, ComponentParams, TemplateOrValue, default_unless_read
from ragflow_lg.dsl import old_values
from ragflow_lg.dsl.conditions import FILTERS, TextRule, filter_name, filter_text
from ragflow_lg.dsl.value_types import ExpectedType
from ragflow_lg.dsl.variable_references import Reference, parse_reference

Operation: TypeAlias = Literal["nth", "head", "tail", "filter", "sort", "drop_duplicates"]

MAX_SORT_KEYS = 1_000_000
"""Maximum number of keys by which a list is sorted, those of all its items together."""


def _operation(value: Any) -> Any:
    if value == "":
        return "nth"
    return "head" if isinstance(value, str) and value.lower() == "topn" else value


def _whole_number(value: Any) -> int:
    """Read a whole number; 0 if the value is not a number."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return 0
    return int(number) if math.isfinite(number) else 0


def _count(value: Any) -> Any:
    """Read a reference or a whole number."""
    return (parse_reference(value) if isinstance(value, str) else None) or _whole_number(value)


def _truth(value: Any) -> bool:
    return value.strip().lower() in ("1", "true", "yes", "on") if isinstance(value, str) else bool(value)


def _keys(value: Any) -> Any:
    """Read keys from comma-separated text or a list; null has none."""
    parts = value.split(",") if isinstance(value, str) else [] if value is None else value
    if not isinstance(parts, list):
        return parts
    return [part.strip() if isinstance(part, str) else part for part in cast("list[Any]", parts) if part != ""]


class Filter(BaseModel):
    """The condition of ``filter``."""

    model_config = ConfigDict(frozen=True, defer_build=True, arbitrary_types_allowed=True)

    operator: Annotated[str, BeforeValidator(filter_name), Field(examples=list(FILTERS))] = "="
    value: TemplateOrValue = ""


class Params(ComponentParams):
    """Parameters of ListOperations."""

    query: Reference
    """The list."""
    operations: Annotated[Operation, BeforeValidator(_operation)] = "nth"
    n: Annotated[int | Reference, BeforeValidator(_count)] = 0
    """1-based index of the item (negative: from the end), or the number of items; also a reference to it."""
    strict: Annotated[bool, BeforeValidator(_truth)] = False
    """Whether an ``n`` outside the list is an error."""
    sort_method: Annotated[Literal["asc", "desc"], BeforeValidator(lambda value: value or "asc")] = "asc"
    sort_by: Annotated[list[str], BeforeValidator(_keys)] = Field(default_factory=list[str])
    """Keys by which maps are sorted."""
    filter: Filter = Field(default_factory=Filter)

    @field_validator("sort_method", "sort_by", "filter", mode="wrap")
    @classmethod
    def _may_be_unread(cls, value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        reader = "filter" if info.field_name == "filter" else "sort"
        is_read = info.data.get("operations", reader) == reader
        return default_unless_read(cls, value, handler, info, is_read=is_read)


class Outputs(ComponentOutputs):
    """The new list, and its first and last items (null if it is empty)."""

    declared_by_default = frozenset({"result", "first", "last"})

    result: list[Any] | None = None
    first: Any = None
    last: Any = None


@component(
    "ListOperations",
    params=Params,
    outputs=Outputs,
    expects=lambda params: [ExpectedType(params.query, frozenset({"array"}), "ListOperations needs a list and fails")],
    effects="none",
    description="Pick, filter, sort or de-duplicate the items of a list.",
    source="agent/component/list_operations.py",
)
async def list_operations(ctx: RunContext, params: Params) -> Outputs:
    """Apply the operation to the list of ``query``."""
    values = ctx.peek(params.query)
    if not isinstance(values, list):
        raise ComponentError("The input of List Operations should be an array.", node=ctx.node.id)
    ctx.report_inputs({params.query.text: values})
    result = await OPERATIONS[params.operations](ctx, params, cast("list[Any]", values))
    return Outputs(result=result, first=result[0] if result else None, last=result[-1] if result else None)


async def _nth(ctx: RunContext, params: Params, values: list[Any]) -> list[Any]:
    n = _read_n(ctx, params)
    index = n - 1 if n > 0 else n + len(values)
    if n == 0 or not 0 <= index < len(values):
        _raise_if_strict(ctx, params, n, values)
        return []
    return [values[index]]


async def _head(ctx: RunContext, params: Params, values: list[Any]) -> list[Any]:
    n = _read_n(ctx, params)
    if not 1 <= n <= len(values):
        _raise_if_strict(ctx, params, n, values)
    return values[: max(n, 0)]


async def _tail(ctx: RunContext, params: Params, values: list[Any]) -> list[Any]:
    n = _read_n(ctx, params)
    if not 1 <= n <= len(values):
        _raise_if_strict(ctx, params, n, values)
    return values[-n:] if n > 0 else []


def _read_n(ctx: RunContext, params: Params) -> int:
    if not isinstance(params.n, Reference):
        return params.n
    number = to_number(value := ctx.value(params.n))
    if number is None or not math.isfinite(number):
        raise ComponentError(f"n should be a number, but {params.n.text} is {to_text(value)!r:.80}.", node=ctx.node.id)
    return int(number)


def _raise_if_strict(ctx: RunContext, params: Params, n: int, values: list[Any]) -> None:
    if params.strict:
        raise ComponentError(f"n is {n}, but the list has {len(values)} items.", node=ctx.node.id)


async def _filter(ctx: RunContext, params: Params, values: list[Any]) -> list[Any]:
    if ctx.compatibility.old_values:
        rule = old_values.TextRule(params.filter.operator, str(params.filter.value))
    else:
        rule = TextRule(params.filter.operator, ctx.charge(filter_text(ctx.resolve(params.filter.value))))
    return [value for value in values if rule.matches(value)]


async def _sort(ctx: RunContext, params: Params, values: list[Any]) -> list[Any]:
    if len(values) * len(params.sort_by) > MAX_SORT_KEYS:
        message = f"The list has too many items to sort them by {len(params.sort_by):,} keys."
        raise ComponentError(message, node=ctx.node.id)
    sort = old_values.sort_items if ctx.compatibility.old_values else sort_items
    return sort(values, params.sort_by, params.sort_method == "desc")


def sort_items(values: list[Any], keys: Sequence[str], is_descending: bool) -> list[Any]:
    """Return the items in order; maps are compared by the values of some keys, if there are any."""

    def key(value: Any) -> Any:
        if isinstance(value, dict) and keys:
            entry = cast("dict[str, Any]", value)
            return [_rank(entry.get(name)) for name in keys]
        return [_rank(cast("JsonValue", value))]

    return sorted(values, key=key, reverse=is_descending)


def _rank(value: JsonValue) -> tuple[int, Any]:
    """Return a sort key for any value: null, numbers (booleans as 0 and 1), text, lists, maps by sorted entries."""
    if value is None:
        return 0, 0
    if isinstance(value, int | float):
        return 1, value
    if isinstance(value, str):
        return 2, value
    if isinstance(value, list):
        return 3, [_rank(item) for item in cast("list[Any]", value)]
    return 4, sorted((key, _rank(entry)) for key, entry in cast("dict[str, Any]", value).items())


async def _drop_duplicates(ctx: RunContext, params: Params, values: list[Any]) -> list[Any]:
    return (old_values.drop_duplicates if ctx.compatibility.old_values else drop_duplicates)(values)


def drop_duplicates(values: list[Any]) -> list[Any]:
    """Return the first of each group of equal items."""
    unique: dict[str, Any] = {}
    for value in values:
        unique.setdefault(json.dumps(_normalize(value), sort_keys=True), value)
    return list(unique.values())


def _normalize(value: JsonValue) -> JsonValue:
    """Return equal values in the same form: 1 and 1.0 are equal, 1 and true are not."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_normalize(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: _normalize(item) for key, item in cast("dict[str, Any]", value).items()}
    return value


OPERATIONS: Mapping[Operation, Callable[[RunContext, Params, list[Any]], Awaitable[list[Any]]]] = {
    "nth": _nth,
    "head": _head,
    "tail": _tail,
    "filter": _filter,
    "sort": _sort,
    "drop_duplicates": _drop_duplicates,
}
