"""DataOperations: reshape maps."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
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
from ragflow_lg.base.values import MAX_DEPTH, MAX_ITEMS, JsonValue, to_json, to_text
from ragflow_lg.base.worker_tasks import worker_task
from ragflow_lg.component.decorator import RunContext, component
from ragflow_lg.component.spec import (
    ComponentOutputs,
    ComponentParams,
    OneOrMany,
    ReferenceEntry,
    TemplateOrValue,
    default_unless_read,
)
from ragflow_lg.dsl import old_values
from ragflow_lg.dsl.conditions import FILTERS, TextRule, filter_name, filter_text
from ragflow_lg.dsl.variable_references import Template

Operation: TypeAlias = Literal[
    "select_keys", "literal_eval", "combine", "filter_values", "append_or_update", "remove_keys", "rename_keys"
]
Maps: TypeAlias = list[dict[str, JsonValue]]

MAX_LITERAL_CHARS = 100_000
"""Length limit for strings parsed as Python literals; JSON may be longer."""

MAX_SMALL_CHARS = 1_000
"""How much is parsed as literals in the event loop, which takes a few milliseconds."""

MAX_RENAMINGS = 1_000_000
"""Maximum number of keys that are renamed, those of all maps together."""

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)")


def _keys(value: Any) -> Any:
    """Read keys from a list or comma-separated text. Editors also write a key as ``{"name": key}``."""
    if isinstance(value, str):
        return [key.strip() for key in value.split(",") if key.strip()]
    return [_key(entry) for entry in cast("list[Any]", value)] if isinstance(value, list) else value


def _key(entry: Any) -> Any:
    return cast("dict[str, Any]", entry).get("name", entry) if isinstance(entry, dict) else entry


Keys: TypeAlias = Annotated[list[str], BeforeValidator(_keys)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, defer_build=True, arbitrary_types_allowed=True)


class Rule(_Part):
    """A condition in ``filter_values``."""

    key: str
    operator: Annotated[str, BeforeValidator(filter_name), Field(examples=list(FILTERS))] = "="
    value: TemplateOrValue = ""


class Update(_Part):
    """A key that ``append_or_update`` sets."""

    key: str
    value: TemplateOrValue = ""


class Renaming(_Part):
    """A key that ``rename_keys`` renames."""

    old_key: str = ""
    new_key: str = ""


class Params(ComponentParams):
    """Parameters of DataOperations."""

    query: OneOrMany[ReferenceEntry] = Field(default_factory=list[ReferenceEntry])
    operations: Operation = "literal_eval"
    select_keys: Keys = Field(default_factory=list[str])
    remove_keys: Keys = Field(default_factory=list[str])
    filter_values: list[Rule] = Field(default_factory=list[Rule])
    updates: list[Update] = Field(default_factory=list[Update])
    rename_keys: list[Renaming] = Field(default_factory=list[Renaming])

    @field_validator("select_keys", "remove_keys", "filter_values", "updates", "rename_keys", mode="wrap")
    @classmethod
    def _may_be_unread(cls, value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        reader = "append_or_update" if info.field_name == "updates" else info.field_name
        is_read = info.data.get("operations", reader) == reader
        return default_unless_read(cls, value, handler, info, is_read=is_read)


class Outputs(ComponentOutputs):
    """``result``: a list of maps, or one map after ``combine``."""

    declared_by_default = frozenset({"result"})

    result: Any = None


@component(
    "DataOperations",
    params=Params,
    outputs=Outputs,
    effects="none",
    description="Select, remove, rename, filter, set, combine or parse the keys of maps.",
    source="agent/component/data_operations.py",
)
async def data_operations(ctx: RunContext, params: Params) -> Outputs:
    """Apply the operation to every map among the referenced values and inside referenced lists."""
    maps = maps_of(*(ctx.value(reference) for reference in params.query))
    ctx.report_inputs(ctx.inputs)
    return Outputs(result=await OPERATIONS[params.operations](ctx, params, maps))


def maps_of(*values: JsonValue) -> Maps:
    """Return the maps among some values, and inside those that are lists.

    >>> maps_of({"a": 1}, [{"b": 2}, 3], "c")
    [{'a': 1}, {'b': 2}]
    """
    entries = [entry for value in values for entry in (value if isinstance(value, list) else [value])]
    return [entry for entry in entries if isinstance(entry, dict)]


async def _select(ctx: RunContext, params: Params, maps: Maps) -> JsonValue:
    expected = frozenset(params.select_keys)
    return [{key: value for key, value in entry.items() if key in expected} for entry in maps]


async def _remove(ctx: RunContext, params: Params, maps: Maps) -> JsonValue:
    unwanted = frozenset(params.remove_keys)
    return [{key: value for key, value in entry.items() if key not in unwanted} for entry in maps]


async def _rename(ctx: RunContext, params: Params, maps: Maps) -> JsonValue:
    pairs = ((renaming.old_key.strip(), renaming.new_key.strip()) for renaming in params.rename_keys)
    names = [(old, new) for old, new in pairs if old and new and old != new]
    if len(maps) * len(names) > MAX_RENAMINGS:
        raise ComponentError(f"More than {MAX_RENAMINGS:,} keys would be renamed.", node=ctx.node.id)
    return [*rename_keys(maps, names)]


def rename_keys(maps: Maps, names: Sequence[tuple[str, str]]) -> Maps:
    """Rename keys, each to the end of its map. Two keys can swap their names."""
    results: Maps = []
    renamed = {old for old, _ in names}
    for entry in maps:
        result = dict(entry)
        waiting: dict[str, JsonValue] = {}  # values whose key another one has taken before them
        for old, new in names:
            if old not in result and old not in waiting:
                continue
            value = waiting.pop(old) if old in waiting else result.pop(old)
            if new in result and new in renamed:
                waiting[new] = result[new]
            result[new] = value
        results.append(result)
    return results


async def _combine(ctx: RunContext, params: Params, maps: Maps) -> JsonValue:
    return combine_maps(maps)


def combine_maps(maps: Maps) -> dict[str, JsonValue]:
    """Merge maps by key: a single value stays as it is, and several values become a flat list.

    >>> combine_maps([{"a": 1, "b": 2}, {"a": [3]}])
    {'a': [1, 3], 'b': 2}
    """
    values_by_key: dict[str, list[JsonValue]] = {}
    for entry in maps:
        for key, value in entry.items():
            values_by_key.setdefault(key, []).append(value)
    return {key: values[0] if len(values) == 1 else _flatten(values) for key, values in values_by_key.items()}


def _flatten(values: list[JsonValue]) -> list[JsonValue]:
    return [item for value in values for item in cast("list[Any]", value if isinstance(value, list) else [value])]


async def _filter(ctx: RunContext, params: Params, maps: Maps) -> JsonValue:
    if ctx.compatibility.old_values:
        rules = [
            (r.key, old_values.TextRule(r.operator, to_text(_old_text(ctx, r.value)))) for r in params.filter_values
        ]
    else:
        rules = [
            (rule.key, TextRule(rule.operator, ctx.charge(filter_text(ctx.resolve(rule.value)))))
            for rule in params.filter_values
        ]
    return [*await ctx.services.workers.run(filter_maps, maps, rules)]


@worker_task("Filtering the maps", seconds=5.0)
def filter_maps(maps: Maps, rules: Sequence[tuple[str, TextRule | old_values.TextRule]]) -> Maps:
    """Return the maps that have all keys of the rules, with matching values."""
    return [entry for entry in maps if all(key in entry and rule.matches(entry[key]) for key, rule in rules)]


def _old_text(ctx: RunContext, value: Template | JsonValue) -> JsonValue:
    """Return a text with its references filled in as RAGFlow does; a text that is then empty stays as it is."""
    return ctx.text(old_values.close_gaps(value)) or value.source if isinstance(value, Template) else value


async def _update(ctx: RunContext, params: Params, maps: Maps) -> JsonValue:
    read = partial(_old_text, ctx) if ctx.compatibility.old_values else ctx.resolve
    new_values = {update.key.strip(): read(update.value) for update in params.updates if update.key.strip()}
    if len(maps) * len(new_values) > MAX_ITEMS:
        raise ComponentError(f"The updated maps would have more than {MAX_ITEMS:,} entries.", node=ctx.node.id)
    return [{**entry, **new_values} for entry in maps]


async def _parse(ctx: RunContext, params: Params, maps: Maps) -> JsonValue:
    return [*await ctx.services.workers.run(parse_literals, maps, ctx.compatibility.old_values)]


@worker_task("Parsing the literals", small_size=MAX_SMALL_CHARS)
def parse_literals(maps: Maps, is_old: bool = False) -> list[JsonValue]:
    """Parse the strings in maps as JSON or else as Python literals, or only as these."""
    return [_literal(entry, 0, is_old) for entry in maps]


def _literal(value: JsonValue, depth: int, is_old: bool) -> JsonValue:
    """Parse strings as JSON or else as Python literals, at any depth; other strings stay unchanged."""
    if depth > MAX_DEPTH:
        return value
    if isinstance(value, dict):
        return {key: _literal(entry, depth + 1, is_old) for key, entry in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_literal(entry, depth + 1, is_old) for entry in cast("list[Any]", value)]
    may_be_literal = old_values.may_be_literal if is_old else _may_be_literal
    return _parse_text(value, is_old) if isinstance(value, str) and may_be_literal(value.strip()) else value


def _may_be_literal(text: str) -> bool:
    return text[:1] in ("{", "[", "(", "'", '"') or (
        text.lower() in ("true", "false", "none", "null") or _NUMBER.fullmatch(text) is not None
    )


def _parse_text(text: str, is_old: bool) -> JsonValue:
    if not is_old:
        with suppress(ValueError, RecursionError, ComponentError):
            return to_json(json.loads(text))
    if len(text) > MAX_LITERAL_CHARS:
        return text
    try:
        return to_json(ast.literal_eval(text if is_old else text.strip()))
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError, ComponentError):
        return text


OPERATIONS: Mapping[Operation, Callable[[RunContext, Params, Maps], Awaitable[JsonValue]]] = {
    "select_keys": _select,
    "remove_keys": _remove,
    "rename_keys": _rename,
    "combine": _combine,
    "filter_values": _filter,
    "append_or_update": _update,
    "literal_eval": _parse,
}
