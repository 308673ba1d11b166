"""ListOperations: picks, filters, sorts and thins out a list."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from ragflow_lg.context import RunContext
from ragflow_lg.errors import ComponentError
from ragflow_lg.refs import Reference, Template
from ragflow_lg.spec import ComponentOutputs, ComponentParams, component
from ragflow_lg.values import JsonValue, to_text

__all__ = ["list_operations"]

Operation = Literal["nth", "head", "tail", "filter", "sort", "drop_duplicates"]


def _operation(value: Any) -> Any:
    if value == "":
        return "nth"
    return "head" if isinstance(value, str) and value.lower() == "topn" else value


def _whole_number(value: Any) -> int:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return 0
    return int(number) if math.isfinite(number) else 0


def _truth(value: Any) -> bool:
    return value.strip().lower() in ("1", "true", "yes", "on") if isinstance(value, str) else bool(value)


class Filter(BaseModel):
    """Which items ``filter`` keeps."""

    model_config = ConfigDict(frozen=True, defer_build=True, arbitrary_types_allowed=True)

    operator: str | None = "="
    value: Template = Template("", ())


class Params(ComponentParams):
    """Parameters of ListOperations."""

    query: Reference
    operations: Annotated[Operation, BeforeValidator(_operation)] = "nth"
    n: Annotated[int, BeforeValidator(_whole_number)] = 0
    """Which item (from 1, negative from the end) or how many."""
    strict: Annotated[bool, BeforeValidator(_truth)] = False
    """Whether an ``n`` that the list does not have is an error."""
    sort_method: Literal["asc", "desc"] = "asc"
    sort_by: Annotated[list[str], BeforeValidator(lambda v: _keys(v))] = Field(default_factory=list[str])
    """Keys to sort maps by."""
    filter: Filter = Filter()


def _keys(value: Any) -> Any:
    parts = value.split(",") if isinstance(value, str) else value or []
    if not isinstance(parts, list | tuple):
        return parts
    return [part.strip() for part in parts if isinstance(part, str) and part.strip()]


class Outputs(ComponentOutputs):
    """The new list, its first and its last item (null if it is empty)."""

    result: list[Any] | None = None
    first: Any = None
    last: Any = None


@component(
    "ListOperations",
    params=Params,
    outputs=Outputs,
    description="Pick, filter, sort or de-duplicate the items of a list.",
    source="agent/component/list_operations.py",
)
async def list_operations(ctx: RunContext, params: Params) -> Outputs:
    """Apply the operation to the list that ``query`` names."""
    values = ctx.value(params.query)
    if not isinstance(values, list):
        raise ComponentError("The input of List Operations should be an array.", node=ctx.node.id)
    result = _OPERATIONS[params.operations](ctx, params, cast("list[Any]", values))
    return Outputs(result=result, first=result[0] if result else None, last=result[-1] if result else None)


def _nth(ctx: RunContext, params: Params, values: list[Any]) -> list[Any]:
    index = params.n - 1 if params.n > 0 else params.n + len(values)
    if params.n == 0 or not 0 <= index < len(values):
        return _refuse_if_strict(ctx, params, values, [])
    return [values[index]]


def _head(ctx: RunContext, params: Params, values: list[Any]) -> list[Any]:
    fits = 1 <= params.n <= len(values)
    taken = values[: max(params.n, 0)]
    return taken if fits else _refuse_if_strict(ctx, params, values, taken)


def _tail(ctx: RunContext, params: Params, values: list[Any]) -> list[Any]:
    fits = 1 <= params.n <= len(values)
    taken = values[-params.n :] if params.n > 0 else []
    return taken if fits else _refuse_if_strict(ctx, params, values, taken)


def _refuse_if_strict(ctx: RunContext, params: Params, values: list[Any], otherwise: list[Any]) -> list[Any]:
    if params.strict:
        raise ComponentError(f"n is {params.n}, but the list has {len(values)} item(s).", node=ctx.node.id)
    return otherwise


def _filter(ctx: RunContext, params: Params, values: list[Any]) -> list[Any]:
    test = _TESTS.get((params.filter.operator or "=").strip().lower())
    if test is None:
        raise ComponentError(f"ListOperations has no filter operator {params.filter.operator!r}.", node=ctx.node.id)
    wanted = ctx.text(params.filter.value)
    return [value for value in values if test(_shown(value), wanted)]


def _shown(value: JsonValue) -> str:
    """Text of an item; booleans as Python writes them, which stored canvases compare with."""
    return str(value) if isinstance(value, bool) else to_text(value)


_TESTS: Mapping[str, Callable[[str, str], bool]] = {
    "=": lambda a, b: a == b,
    "==": lambda a, b: a == b,
    "≠": lambda a, b: a != b,
    "!=": lambda a, b: a != b,
    "contains": lambda a, b: b in a,
    "not contains": lambda a, b: b not in a,
    "start with": lambda a, b: a.startswith(b),
    "end with": lambda a, b: a.endswith(b),
    "empty": lambda a, b: not a,
    "not empty": lambda a, b: bool(a),
}


def _sort(ctx: RunContext, params: Params, values: list[Any]) -> list[Any]:
    def key(value: Any) -> Any:
        if isinstance(value, dict) and params.sort_by:
            held = cast("dict[str, Any]", value)
            return [_rank(held.get(name)) for name in params.sort_by]
        return [_rank(value)]

    return sorted(values, key=key, reverse=params.sort_method == "desc")


def _rank(value: JsonValue) -> tuple[int, Any]:
    """Order any two values: null, then numbers, then text, then lists and maps by their JSON."""
    if value is None:
        return 0, 0
    if isinstance(value, int | float):
        return 1, value
    return (2, value) if isinstance(value, str) else (3, json.dumps(value, sort_keys=True, ensure_ascii=False))


def _drop_duplicates(ctx: RunContext, params: Params, values: list[Any]) -> list[Any]:
    kept: dict[str, Any] = {}
    for value in values:
        kept.setdefault(_identity(value), value)
    return list(kept.values())


def _identity(value: JsonValue) -> str:
    """Equal for equal JSON: 1 and 1.0 are one number, true is another value."""
    return json.dumps(_whole(value), sort_keys=True, ensure_ascii=False)


def _whole(value: JsonValue) -> JsonValue:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_whole(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in cast("dict[str, Any]", value).items()}
    return value


_OPERATIONS: Mapping[str, Callable[[RunContext, Params, list[Any]], list[Any]]] = {
    "nth": _nth,
    "head": _head,
    "tail": _tail,
    "filter": _filter,
    "sort": _sort,
    "drop_duplicates": _drop_duplicates,
}
