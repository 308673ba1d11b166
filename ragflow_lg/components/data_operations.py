"""DataOperations: reshapes maps."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo

from ragflow_lg.context import RunContext
from ragflow_lg.refs import Reference, Template, parse_template
from ragflow_lg.spec import ComponentOutputs, ComponentParams, OneOrMany, ReferenceEntry, component
from ragflow_lg.values import MAX_DEPTH, JsonValue, to_json, to_text

__all__ = ["data_operations"]

Operation = Literal[
    "select_keys", "literal_eval", "combine", "filter_values", "append_or_update", "remove_keys", "rename_keys"
]

MAX_LITERAL_CHARS = 1_000_000


def _name_of(value: Any) -> Any:
    """Editors write a key as ``{"name": key}`` too."""
    if isinstance(value, dict):
        held = cast("dict[str, Any]", value)
        return held.get("name", held.get("value", value))
    return value


def _template_if_text(value: Any, info: ValidationInfo) -> Any:
    scope = (info.context or {}).get("scope")
    return parse_template(value, scope) if isinstance(value, str) else value


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, defer_build=True, arbitrary_types_allowed=True)


class Rule(_Part):
    """A test that ``filter_values`` makes."""

    key: str
    operator: str | None = "="
    value: Annotated[Any, BeforeValidator(_template_if_text)] = ""


class Update(_Part):
    """A key that ``append_or_update`` sets."""

    key: str
    value: Annotated[Any, BeforeValidator(_template_if_text)] = ""


class Renaming(_Part):
    """A key that ``rename_keys`` renames."""

    old_key: str = ""
    new_key: str = ""


Key = Annotated[str, BeforeValidator(_name_of)]


class Params(ComponentParams):
    """Parameters of DataOperations."""

    query: OneOrMany[ReferenceEntry] = Field(default_factory=list[Reference])
    operations: Operation = "literal_eval"
    select_keys: OneOrMany[Key] = Field(default_factory=list[str])
    remove_keys: OneOrMany[Key] = Field(default_factory=list[str])
    filter_values: list[Rule] = Field(default_factory=list[Rule])
    updates: list[Update] = Field(default_factory=list[Update])
    rename_keys: list[Renaming] = Field(default_factory=list[Renaming])


class Outputs(ComponentOutputs):
    """``result``: a list of maps; after ``combine`` one map."""

    result: Any = None


@component(
    "DataOperations",
    params=Params,
    outputs=Outputs,
    description="Select, remove, rename, filter, set, combine or parse the keys of maps.",
    source="agent/component/data_operations.py",
)
async def data_operations(ctx: RunContext, params: Params) -> Outputs:
    """Apply the operation to every map among the referenced values and in referenced lists."""
    maps: list[dict[str, JsonValue]] = []
    for reference in params.query:
        value = ctx.value(reference)
        entries = cast("list[Any]", value if isinstance(value, list) else [value])
        maps += [cast("dict[str, Any]", entry) for entry in entries if isinstance(entry, dict)]
    return Outputs(result=_OPERATIONS[params.operations](ctx, params, maps))


Maps = list[dict[str, JsonValue]]


def _select(ctx: RunContext, params: Params, maps: Maps) -> JsonValue:
    return [{key: value for key, value in held.items() if key in params.select_keys} for held in maps]


def _remove(ctx: RunContext, params: Params, maps: Maps) -> JsonValue:
    return [{key: value for key, value in held.items() if key not in params.remove_keys} for held in maps]


def _rename(ctx: RunContext, params: Params, maps: Maps) -> JsonValue:
    renamed: Maps = []
    for held in maps:
        result = dict(held)
        for renaming in params.rename_keys:
            old, new = renaming.old_key.strip(), renaming.new_key.strip()
            if old and new and old != new and old in result:
                result[new] = result.pop(old)
        renamed.append(result)
    return renamed


def _combine(ctx: RunContext, params: Params, maps: Maps) -> JsonValue:
    combined: dict[str, JsonValue] = {}
    for held in maps:
        for key, value in held.items():
            if key not in combined:
                combined[key] = value
                continue
            before, after = (v if isinstance(v, list) else [v] for v in (combined[key], value))
            combined[key] = [*before, *after]
    return combined


def _filter(ctx: RunContext, params: Params, maps: Maps) -> JsonValue:
    rules = [(rule, _resolved(ctx, rule.value)) for rule in params.filter_values]
    return [held for held in maps if all(_passes(held, rule, wanted) for rule, wanted in rules)]


def _passes(held: Mapping[str, JsonValue], rule: Rule, wanted: JsonValue) -> bool:
    test = _TESTS.get((rule.operator or "=").strip().lower())
    return test is not None and rule.key in held and test(_shown(held[rule.key]), _shown(wanted))


def _shown(value: JsonValue) -> str:
    """Text of a value; booleans as Python writes them, which stored canvases compare with."""
    return str(value) if isinstance(value, bool) else to_text(value)


_TESTS: Mapping[str, Callable[[str, str], bool]] = {
    "=": lambda a, b: a == b,
    "==": lambda a, b: a == b,
    "≠": lambda a, b: a != b,
    "!=": lambda a, b: a != b,
    "contains": lambda a, b: b in a,
    "start with": lambda a, b: a.startswith(b),
    "end with": lambda a, b: a.endswith(b),
}


def _update(ctx: RunContext, params: Params, maps: Maps) -> JsonValue:
    given = {update.key.strip(): _resolved(ctx, update.value) for update in params.updates if update.key.strip()}
    return [{**held, **given} for held in maps]


def _resolved(ctx: RunContext, value: Any) -> JsonValue:
    return ctx.resolve(value) if isinstance(value, Template) else value


def _parse(ctx: RunContext, params: Params, maps: Maps) -> JsonValue:
    return [_literal(held, 0) for held in maps]


def _literal(value: JsonValue, depth: int) -> JsonValue:
    """Read texts as JSON, else as Python literals, at any depth; what is neither stays text."""
    if depth > MAX_DEPTH:
        return value
    if isinstance(value, dict):
        return {key: _literal(entry, depth + 1) for key, entry in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_literal(entry, depth + 1) for entry in cast("list[Any]", value)]
    return _parsed(value) if isinstance(value, str) and _may_be_literal(value) else value


def _may_be_literal(text: str) -> bool:
    stripped = text.strip()
    number = stripped.lstrip("+-").replace(".", "", 1)
    return bool(stripped) and len(stripped) <= MAX_LITERAL_CHARS and (
        stripped[0] in "{[('\"" or stripped.lower() in ("true", "false", "none", "null") or number.isdecimal()
    )


def _parsed(text: str) -> JsonValue:
    try:
        return to_json(json.loads(text))
    except (ValueError, RecursionError):
        pass
    try:
        return to_json(ast.literal_eval(text.strip()))
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return text


_OPERATIONS: Mapping[str, Callable[[RunContext, Params, Maps], JsonValue]] = {
    "select_keys": _select,
    "remove_keys": _remove,
    "rename_keys": _rename,
    "combine": _combine,
    "filter_values": _filter,
    "append_or_update": _update,
    "literal_eval": _parse,
}
