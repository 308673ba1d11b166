"""Work out the globals of a new session, and Begin's form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from ragflow_lg.base.values import JsonValue, empty_like, empty_of_type, to_json
from ragflow_lg.dsl.forms import FormField, form_fields
from ragflow_lg.dsl_compiler.diagnostics import Reporter, pointer_of
from ragflow_lg.dsl_compiler.draft import Draft
from ragflow_lg.dsl_compiler.shapes import as_list, as_map, as_text

__all__ = ["bind_globals"]

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
    """Apply RAGFlow's full reset: ``sys.*`` become empty, ``env.*`` take the value of their variable.

    A variable without a global is seeded too. What an earlier run left in ``path``, ``history``,
    ``retrieval`` or ``memory`` belongs to another session and is not read.
    """
    held: dict[str, JsonValue] = dict(SYSTEM_DEFAULTS)
    variables = dict(_variables(draft))
    for name, value in as_map(draft.document.get("globals")).items():
        if name.startswith("sys."):
            held[name] = empty_like(value)
        elif name.startswith("env."):
            held[name] = variables.get(name, "")
            if name not in variables and value != empty_like(value):
                _tell_of_lost(draft, reporter, name)
        else:
            reporter.report(
                "component-dropped",
                "info",
                pointer_of(draft.base, ["globals", name]),
                f"The global {name!r} is neither sys.* nor env.* and was left out.",
            )
    return replace(draft, globals={**held, **variables}, form=tuple(_form(draft)))


def _tell_of_lost(draft: Draft, reporter: Reporter, name: str) -> None:
    reporter.report(
        "global-undeclared",
        "warning",
        pointer_of(draft.base, ["globals", name]),
        f"No variable {name.removeprefix('env.')!r} is declared: the value of {name!r} is dropped, it begins empty.",
        hint=f"Declare {name.removeprefix('env.')!r} under variables, with its type and value.",
    )


def _variables(draft: Draft) -> Iterable[tuple[str, JsonValue]]:
    variables = draft.document.get("variables")
    named = as_map(variables).items() if isinstance(variables, Mapping) else ((None, v) for v in as_list(variables))
    for key, entry in named:
        variable = as_map(entry)
        name = as_text(variable.get("name")) or key
        if name:
            value = variable.get("value")
            reset = empty_of_type(as_text(variable.get("type"))) if value is None else to_json(value)
            yield f"env.{name.removeprefix('env.')}", reset


def _form(draft: Draft) -> Iterable[FormField]:
    entry = next((n for n in draft.nodes.values() if n.spec.kind == "entry"), None)
    return form_fields(entry.params.inputs) if entry else ()
