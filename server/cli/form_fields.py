"""Filling forms from the command line: ``NAME=VALUE`` entries, and prompts on a terminal."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import typer

from ragflow_lg.base.errors import AnswerError
from ragflow_lg.base.values import to_text
from ragflow_lg.dsl.forms import FormField, form_fields, form_problems

if TYPE_CHECKING:
    from ragflow_lg.runs.pauses import Pause

_KINDS = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "a JSON object",
}
_BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def read_fields(form: Iterable[FormField], entries: Iterable[str], *, needs_all: bool = False) -> dict[str, Any]:
    """Read ``NAME=VALUE`` entries, and parse each value according to its field's type.

    Raises:
        AnswerError: If entries are malformed or a value has the wrong type. The message names all such entries
            and, with ``needs_all``, all missing fields.
    """
    fields_by_name = {field.name: field for field in form}
    values: dict[str, Any] = {}
    problems: list[str] = []
    names: set[str] = set()
    for entry in entries:
        try:
            name, text = _split_entry(entry)
            names.add(name)
            if name not in fields_by_name and fields_by_name:
                raise _unknown_field(name, fields_by_name)
            values[name] = parse_value(fields_by_name[name], text) if name in fields_by_name else text
        except AnswerError as problem:
            problems.append(str(problem))
    if problems and needs_all:
        missing = [field for name, field in fields_by_name.items() if name not in names]
        problems += form_problems(as_declared(missing), {}).values()
    _raise_problems(problems)
    return values


def read_answers(pauses: Sequence[Pause], entries: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Read ``NAME=VALUE`` entries for all open forms, by pause id. Unchecked forms get text of another type as it is.

    ``COMPONENT@NAME=VALUE`` answers one component's form. A plain name answers every form that has this field but no
    entry specifically for it; the order of the entries does not matter.

    Raises:
        AnswerError: If entries are malformed or a value has the wrong type. The message names all such entries.
    """
    shared, qualified = _fields_by_name(pauses)
    answers: dict[str, dict[str, Any]] = {}
    problems: list[str] = []
    for entry in entries:
        try:
            name, _ = _split_entry(entry)
            if name not in qualified and name not in shared and qualified:
                raise _unknown_field(name, qualified if "@" in name else {**shared, **qualified})
        except AnswerError as problem:
            problems.append(str(problem))
    matches = match_fields(pauses, entries)
    for pause in pauses:
        for field in form_fields(pause.inputs):
            if (text := matches.get(pause.id, {}).get(field.name)) is None:
                continue
            try:
                answers.setdefault(pause.id, {})[field.name] = parse_value(field, text)
            except AnswerError as problem:
                if pause.is_checked:
                    problems.append(str(problem))
                else:
                    answers.setdefault(pause.id, {})[field.name] = text
    _raise_problems(problems)
    return answers


def match_fields(pauses: Iterable[Pause], entries: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return the text for each field of each open form, by pause id; ignore entries that do not match a field."""
    shared, qualified = _fields_by_name(pauses)
    matches: dict[str, dict[str, str]] = {}
    pairs = [entry.partition("=") for entry in entries if "=" in entry]
    for names in (shared, qualified):  # an answer to one form overrides an answer to all
        for name, _, text in pairs:
            for id_, field in names.get(name, ()):
                matches.setdefault(id_, {})[field] = text
    return matches


_FieldsByName = dict[str, list[tuple[str, str]]]


def _fields_by_name(pauses: Iterable[Pause]) -> tuple[_FieldsByName, _FieldsByName]:
    """Return the pause id and field for each plain name and each ``COMPONENT@NAME``."""
    shared: _FieldsByName = {}
    qualified: _FieldsByName = {}
    for pause in pauses:
        for name in pause.inputs:
            shared.setdefault(name, []).append((pause.id, name))
            qualified.setdefault(f"{pause.node}@{name}", []).append((pause.id, name))
    return shared, qualified


def _raise_problems(problems: Iterable[str]) -> None:
    if message := " ".join(dict.fromkeys(problems)):
        raise AnswerError({"": message})


def _split_entry(entry: str) -> tuple[str, str]:
    name, equals, value = entry.partition("=")
    if not equals or not name:
        raise AnswerError({"": f"{entry!r} should be NAME=VALUE."})
    return name, value


def _unknown_field(name: str, known: Iterable[str]) -> AnswerError:
    near = get_close_matches(name, list(known), n=1)
    hint = f"Did you mean {near[0]}?" if near else f"Its fields: {', '.join(known)}."
    return AnswerError({"": f"The form has no field {name!r}. {hint}"})


def check_fields(form: Iterable[FormField], fields: Mapping[str, Any]) -> None:
    """Check values against a form.

    Raises:
        AnswerError: If fields are missing or invalid. The message names all such fields.
    """
    _raise_problems(form_problems(as_declared(form), fields).values())


def as_declared(form: Iterable[FormField]) -> dict[str, dict[str, Any]]:
    """Return a form in the format in which a canvas declares it."""
    return {
        f.name: {"name": f.label, "type": f.type, "optional": f.is_optional, "options": list(f.options)} for f in form
    }


def parse_value(field: FormField, text: str) -> Any:
    """Parse text according to its field's type.

    Raises:
        AnswerError: If the text does not have that type.
    """
    kind = field.type.lower()
    try:
        if kind in ("integer", "number"):
            return int(text) if kind == "integer" else _require_finite(float(text))
        if kind == "object":
            return json.loads(text, parse_constant=lambda word: _require_finite(float(word)))
    except (RecursionError, ValueError):
        raise _type_error(field, kind, text) from None
    if kind == "boolean":
        if text.lower() not in _BOOLEANS:
            raise _type_error(field, kind, text)
        return _BOOLEANS[text.lower()]
    return text


def _type_error(field: FormField, kind: str, text: str) -> AnswerError:
    return AnswerError({"": f"{field.display_name} should be {_KINDS[kind]}, not {text!r:.80}."})


def is_interactive() -> bool:
    """Return whether standard input and output are terminals, so that a user can be prompted."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _require_finite(number: float) -> float:
    if not math.isfinite(number):
        raise ValueError("must be finite")
    return number


def prompt_fields(form: Iterable[FormField], values: Mapping[str, Any]) -> dict[str, Any]:
    """Prompt for the required fields that have no value; without a terminal, return ``values`` unchanged."""
    fields = dict(values)
    if not is_interactive():
        return fields
    for field in form:
        while field.name not in fields and not field.is_optional:
            choices = f" ({', '.join(map(str, field.options))})" if field.options else ""
            start = "" if field.value in (None, "", [], {}) else to_text(field.value)
            text = str(typer.prompt(f"{field.label}{choices}", default=start, show_default=bool(start)))
            try:
                value = parse_value(field, text)
            except AnswerError as problem:
                typer.echo(str(problem), err=True)
                continue
            if problems := form_problems(as_declared([field]), {field.name: value}):
                typer.echo(problems[field.name], err=True)
                continue
            fields[field.name] = value
    return fields
