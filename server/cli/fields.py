"""Filling a form from the command line: ``NAME=VALUE``, and questions on a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

import typer

from ragflow_lg.forms import FormField, form_problems

__all__ = ["ask_fields", "check_fields", "read_fields", "read_value"]

_BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def read_fields(form: Iterable[FormField], given: Iterable[str]) -> dict[str, Any]:
    """Read ``NAME=VALUE`` texts, each value as the form declares it.

    Raises:
        typer.BadParameter: if one is written otherwise, or its value is of another type.
    """
    form = list(form)
    kinds = {field.name: field.type for field in form}
    fields: dict[str, Any] = {}
    for entry in given:
        name, equals, value = entry.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{entry!r} should be NAME=VALUE.", param_hint="--input")
        if name not in kinds and kinds:
            near = get_close_matches(name, kinds, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"It has {', '.join(kinds)}."
            raise typer.BadParameter(f"The form has no field {name!r}. {hint}", param_hint="--input")
        fields[name] = read_value(name, kinds.get(name, "line"), value)
    return fields


def check_fields(form: Iterable[FormField], fields: Mapping[str, Any]) -> None:
    """Refuse what does not fit the form.

    Raises:
        typer.BadParameter: that names every field.
    """
    declared = {
        f.name: {"name": f.label, "type": f.type, "optional": f.is_optional, "options": list(f.options)} for f in form
    }
    if problems := form_problems(declared, fields):
        told = " ".join(f"{name}: {problem}" for name, problem in problems.items())
        raise typer.BadParameter(told, param_hint="--input")


def read_value(name: str, kind: str, value: str) -> Any:
    """Read a value of a declared type from text."""
    kind = kind.lower()
    try:
        if kind in ("integer", "number"):
            return int(value) if kind == "integer" else float(value)
        if kind == "object":
            return json.loads(value)
    except ValueError:
        raise typer.BadParameter(f"{name} should be {kind}, not {value!r}.", param_hint="--input") from None
    if kind == "boolean":
        if value.lower() not in _BOOLEANS:
            raise typer.BadParameter(f"{name} should be true or false, not {value!r}.", param_hint="--input")
        return _BOOLEANS[value.lower()]
    return value


def ask_fields(form: Iterable[FormField], given: Mapping[str, Any]) -> dict[str, Any]:
    """Ask on a terminal for the fields that are missing; elsewhere give what there is."""
    fields = dict(given)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return fields
    for field in form:
        while field.name not in fields and not field.is_optional:
            choices = f" ({', '.join(map(str, field.options))})" if field.options else ""
            text = str(typer.prompt(f"{field.label}{choices}", default=field.value if field.value is not None else ""))
            try:
                value = read_value(field.name, field.type, text)
            except typer.BadParameter as problem:
                typer.echo(str(problem), err=True)
                continue
            declared = {field.name: {"name": field.label, "type": field.type, "options": list(field.options)}}
            if problems := form_problems(declared, {field.name: value}):
                typer.echo(problems[field.name], err=True)
                continue
            fields[field.name] = value
    return fields
