"""Determine a new session's globals and Begin's form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from ragflow_lg.base.diagnostics import Fix
from ragflow_lg.base.errors import ComponentError
from ragflow_lg.base.lenient_values import as_list, as_map, as_text
from ragflow_lg.base.values import JsonValue, empty_like, empty_of_type, to_json, to_text
from ragflow_lg.dsl.field_values import parse_object
from ragflow_lg.dsl.forms import FormField, form_fields, read_value
from ragflow_lg.dsl_compiler.diagnostics import Reporter, extend_pointer
from ragflow_lg.dsl_compiler.draft import Draft

SYSTEM_DEFAULTS: Mapping[str, JsonValue] = {
    "sys.query": "",
    "sys.user_id": "",
    "sys.conversation_turns": 0,
    "sys.files": [],
    "sys.history": [],
    "sys.date": "",
}
"""Globals that every canvas has. Source: RAGFlow's ``agent/canvas.py``."""


def bind_globals(draft: Draft, reporter: Reporter) -> Draft:
    """Apply RAGFlow's full reset: ``sys.*`` become empty, and ``env.*`` get their variable's value.

    Variables without a global are added. ``path``, ``history``, ``retrieval`` and ``memory`` belong to an earlier
    session and are not read.
    """
    values: dict[str, JsonValue] = dict(SYSTEM_DEFAULTS)
    variables = dict(_variables(draft, reporter))
    for name, value in as_map(draft.document.get("globals")).items():
        if name.startswith("sys."):
            values[name] = empty_like(value)
        elif name.startswith("env."):
            values[name] = variables.get(name, "")
            if name not in variables and value != empty_like(value):
                _report_dropped_value(draft, reporter, name)
        else:
            message = f"The global {name!r} is neither sys.* nor env.* and was ignored."
            pointer, fix = extend_pointer(draft.base, ["globals", name]), Fix(f"Remove {name!r}", "remove")
            reporter.report("component-dropped", "info", pointer, message, fix=fix)
    return replace(draft, globals={**values, **variables}, form=tuple(_form_fields(draft)))


def _report_dropped_value(draft: Draft, reporter: Reporter, name: str) -> None:
    message = f"The variable {name.removeprefix('env.')!r} is not declared: the value of {name!r} is dropped."
    hint = f"Declare {name.removeprefix('env.')!r} under variables, with a type and a value."
    reporter.report("global-undeclared", "warning", extend_pointer(draft.base, ["globals", name]), message, hint)


def _variables(draft: Draft, reporter: Reporter) -> Iterable[tuple[str, JsonValue]]:
    variables = draft.document.get("variables")
    is_map = isinstance(variables, Mapping)
    named: Iterable[tuple[str | int, Any]] = as_map(variables).items() if is_map else enumerate(as_list(variables))
    for key, entry in named:
        variable = as_map(entry)
        name = as_text(variable.get("name")) or (key if isinstance(key, str) else "")
        if not name:
            continue
        value, type_name = variable.get("value"), as_text(variable.get("type"))
        try:
            value = empty_of_type(type_name) if value is None else to_json(_typed(value, type_name))
        except ComponentError as error:
            pointer = extend_pointer(draft.base, ["variables", key, "value"])
            reporter.report("document-too-large", "error", pointer, f"The value of the variable {name!r}: {error}")
            value = ""
        yield f"env.{name.removeprefix('env.')}", value


def _typed(value: JsonValue, type_name: str) -> JsonValue:
    """Return the text of a variable as the type that it is declared to have. A text that looks otherwise stays.

    >>> _typed("false", "boolean"), _typed("7", "number"), _typed("[1]", "array<number>"), _typed("007", "number")
    (False, 7, [1], '007')
    """
    kind = type_name.strip().lower()
    if not isinstance(value, str):
        return value
    if kind == "object" or kind.startswith("array"):
        parsed = parse_object(value)
        return parsed if isinstance(parsed, dict if kind == "object" else list) else value
    typed = read_value(value, kind) if kind in ("boolean", "number") else value
    return typed if typed is not None and to_text(typed) == value.strip().lower() else value


def _form_fields(draft: Draft) -> Iterable[FormField]:
    entry = next((n for n in draft.nodes.values() if n.spec.kind == "entry"), None)
    return form_fields(entry.params.inputs) if entry else ()
