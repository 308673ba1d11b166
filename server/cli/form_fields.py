"""Filling a form from the command line: ``NAME=VALUE``, and questions on a terminal."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import typer

from ragflow_lg.base.values import to_text
from ragflow_lg.dsl.forms import FormField, form_fields, form_problems

if TYPE_CHECKING:
    from ragflow_lg.runs.pauses import Pause

__all__ = [
    "ask_fields",
    "check_fields",
    "chosen_fields",
    "declared_form",
    "is_asked",
    "read_answers",
    "read_fields",
    "read_value",
]

_KINDS = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "a JSON object",
}
_BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def read_fields(form: Iterable[FormField], given: Iterable[str], *, needs_all: bool = False) -> dict[str, Any]:
    """Read ``NAME=VALUE`` texts, each value as the form declares it.

    Raises:
        typer.BadParameter: if any are written otherwise, or have a value of another type; it names them all, and with
            ``needs_all`` those that are missing too.
    """
    declared = {field.name: field for field in form}
    fields: dict[str, Any] = {}
    problems: list[str] = []
    names: set[str] = set()
    for entry in given:
        try:
            name, value = _parted(entry)
            names.add(name)
            if name not in declared and declared:
                raise _no_field(name, declared)
            fields[name] = read_value(declared[name], value) if name in declared else value
        except typer.BadParameter as problem:
            problems.append(problem.message)
    if problems and needs_all:
        missing = [field for name, field in declared.items() if name not in names]
        problems += form_problems(declared_form(missing), {}).values()
    _refuse(problems)
    return fields


def read_answers(pauses: Sequence[Pause], given: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Read ``NAME=VALUE`` texts for all forms that wait, by the ids of their pauses.

    ``COMPONENT@NAME=VALUE`` answers the form of one component, a plain name every form that has it and that is not
    answered by itself, wherever it stands.

    Raises:
        typer.BadParameter: if any are written otherwise, or have a value of another type; it names them all.
    """
    everywhere, one = _names_of(pauses)
    answers: dict[str, dict[str, Any]] = {}
    problems: list[str] = []
    for entry in given:
        try:
            name, _ = _parted(entry)
            if name not in one and name not in everywhere and one:
                raise _no_field(name, one if "@" in name else {**everywhere, **one})
        except typer.BadParameter as problem:
            problems.append(problem.message)
    chosen = chosen_fields(pauses, given)
    for pause in pauses:
        for field in form_fields(pause.inputs):
            if (text := chosen.get(pause.id, {}).get(field.name)) is None:
                continue
            try:
                answers.setdefault(pause.id, {})[field.name] = read_value(field, text)
            except typer.BadParameter as problem:
                problems.append(problem.message)
    _refuse(problems)
    return answers


def chosen_fields(pauses: Iterable[Pause], given: Iterable[str]) -> dict[str, dict[str, str]]:
    """Give the text that is meant for each field of each open form, by pause id; what fits nowhere is left out."""
    everywhere, one = _names_of(pauses)
    chosen: dict[str, dict[str, str]] = {}
    parted = [entry.partition("=") for entry in given if "=" in entry]
    for names in (everywhere, one):  # the answer to one form stands above the one to all
        for name, _, text in parted:
            for id_, field in names.get(name, ()):
                chosen.setdefault(id_, {})[field] = text
    return chosen


_Names = dict[str, list[tuple[str, str]]]


def _names_of(pauses: Iterable[Pause]) -> tuple[_Names, _Names]:
    """Give pause id and field for each plain name, and for each ``COMPONENT@NAME``."""
    everywhere: _Names = {}
    one: _Names = {}
    for pause in pauses:
        for name in pause.inputs:
            everywhere.setdefault(name, []).append((pause.id, name))
            one.setdefault(f"{pause.node}@{name}", []).append((pause.id, name))
    return everywhere, one


def _refuse(problems: Iterable[str]) -> None:
    if told := " ".join(dict.fromkeys(problems)):
        raise typer.BadParameter(told, param_hint="--input")


def _parted(entry: str) -> tuple[str, str]:
    name, equals, value = entry.partition("=")
    if not equals or not name:
        raise typer.BadParameter(f"{entry!r} should be NAME=VALUE.", param_hint="--input")
    return name, value


def _no_field(name: str, known: Iterable[str]) -> typer.BadParameter:
    near = get_close_matches(name, list(known), n=1)
    hint = f"Did you mean {near[0]}?" if near else f"It has {', '.join(known)}."
    return typer.BadParameter(f"The form has no field {name!r}. {hint}", param_hint="--input")


def check_fields(form: Iterable[FormField], fields: Mapping[str, Any]) -> None:
    """Refuse what does not fit the form.

    Raises:
        typer.BadParameter: that names every field.
    """
    _refuse(form_problems(declared_form(form), fields).values())


def declared_form(form: Iterable[FormField]) -> dict[str, dict[str, Any]]:
    """Give a form as a canvas declares it."""
    return {
        f.name: {"name": f.label, "type": f.type, "optional": f.is_optional, "options": list(f.options)} for f in form
    }


def read_value(field: FormField, text: str) -> Any:
    """Read the value of a field from text.

    Raises:
        typer.BadParameter: if it is of another type.
    """
    kind = field.type.lower()
    try:
        if kind in ("integer", "number"):
            return int(text) if kind == "integer" else _finite(float(text))
        if kind == "object":
            return json.loads(text, parse_constant=lambda word: _finite(float(word)))
    except (RecursionError, ValueError):
        raise _wrong(field, kind, text) from None
    if kind == "boolean":
        if text.lower() not in _BOOLEANS:
            raise _wrong(field, kind, text)
        return _BOOLEANS[text.lower()]
    return text


def _wrong(field: FormField, kind: str, text: str) -> typer.BadParameter:
    return typer.BadParameter(f"{field.display_name} should be {_KINDS[kind]}, not {text!r:.80}.", param_hint="--input")


def is_asked() -> bool:
    """Whether somebody sits at the terminal to be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _finite(number: float) -> float:
    if not math.isfinite(number):
        raise ValueError("JSON has no such number")
    return number


def ask_fields(form: Iterable[FormField], given: Mapping[str, Any]) -> dict[str, Any]:
    """Ask on a terminal for the fields that are missing; elsewhere give what there is."""
    fields = dict(given)
    if not is_asked():
        return fields
    for field in form:
        while field.name not in fields and not field.is_optional:
            choices = f" ({', '.join(map(str, field.options))})" if field.options else ""
            start = "" if field.value in (None, "", [], {}) else to_text(field.value)
            text = str(typer.prompt(f"{field.label}{choices}", default=start, show_default=bool(start)))
            try:
                value = read_value(field, text)
            except typer.BadParameter as problem:
                typer.echo(str(problem), err=True)
                continue
            if problems := form_problems(declared_form([field]), {field.name: value}):
                typer.echo(problems[field.name], err=True)
                continue
            fields[field.name] = value
    return fields
