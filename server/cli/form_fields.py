"""Filling forms from the command line: ``NAME=VALUE`` entries, files of this machine, and prompts on a terminal.

A value that does not fit is an `AnswerError`. Where several values are read, its message names all that do not fit.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ragflow_lg.base.errors import AnswerError, ServiceError
from ragflow_lg.base.local_paths import local_file_id
from ragflow_lg.base.values import to_text
from ragflow_lg.dsl.field_values import UnfitValueError, convert_value
from ragflow_lg.dsl.forms import FormField, form_fields, form_problems, is_file

if TYPE_CHECKING:
    from ragflow_lg.runs.pauses import Pause


def read_attachments(paths: Iterable[Path]) -> list[dict[str, str]]:
    """Read files: images as ``data:`` URIs, all others as text. Audio is transcribed when the turn begins.

    The components that work on files, such as ExcelProcessor, read them again by their ids.
    """
    try:
        return [_read_text(path) for path in paths]
    except ServiceError as error:
        raise typer.BadParameter(str(error), param_hint="--file") from None


def describe_file(name: str) -> dict[str, str]:
    """Return a file as the value of a form's field. Its text is read by the node that has the form."""
    from ragflow_lg.adapters.local_files import read_local_file

    if not name:
        raise AnswerError({"": "After @, name a file."})
    path = Path(name).expanduser()
    if not path.is_file() and path.exists():
        raise AnswerError({"": f"{str(path)!r} is not a file."})
    try:
        content = read_local_file(path)
    except ServiceError as error:
        raise AnswerError({"": str(error)}) from None
    return {"id": local_file_id(path, content), "name": path.name}


def _read_text(path: Path) -> dict[str, str]:
    import asyncio  # `run --help` needs none of these

    from ragflow_lg.adapters.knowledge.attachments import file_text, is_audio
    from ragflow_lg.adapters.local_files import read_local_file
    from ragflow_lg.component.integration import parses_documents
    from ragflow_lg.services.workers import NoWorkers

    content = read_local_file(path)
    # What a pipe contained cannot be read again.
    file = {"name": path.name} | ({"id": local_file_id(path, content)} if path.is_file() else {})
    if is_audio(path.name, "") or (path.is_file() and parses_documents()):
        return file
    return {**file, "content": asyncio.run(file_text(NoWorkers(), str(path), "", content))}


def read_fields(form: Iterable[FormField], entries: Iterable[str], *, needs_all: bool = False) -> dict[str, Any]:
    """Read ``NAME=VALUE`` entries, and parse each value according to its field's type."""
    fields_by_name = {field.name: field for field in form}
    values: dict[str, Any] = {}
    texts: dict[str, list[str]] = {}
    problems: list[str] = []
    names: set[str] = set()
    for entry in entries:
        try:
            name, text = _split_entry(entry)
            names.add(name)
            if name not in fields_by_name and fields_by_name:
                raise _unknown_field(name, fields_by_name)
            texts.setdefault(name, []).append(text)
            values[name] = text
        except AnswerError as problem:
            problems.append(str(problem))
    for name in [name for name in texts if name in fields_by_name]:
        try:
            values[name] = _parse_texts(fields_by_name[name], texts[name])
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
    matches = _match_entries(pauses, entries)
    for pause in pauses:
        for field in form_fields(pause.inputs):
            if not (texts := matches.get(pause.id, {}).get(field.name)):
                continue
            try:
                answers.setdefault(pause.id, {})[field.name] = _parse_texts(field, texts)
            except AnswerError as problem:
                if pause.is_checked or is_file(field.type):
                    problems.append(str(problem))
                else:
                    answers.setdefault(pause.id, {})[field.name] = texts[-1]
    _raise_problems(problems)
    return answers


def match_fields(pauses: Iterable[Pause], entries: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return the text for each field of each open form, by pause id; ignore entries that do not match a field."""
    matches = _match_entries(pauses, entries)
    return {id_: {field: texts[-1] for field, texts in fields.items()} for id_, fields in matches.items()}


def _match_entries(pauses: Iterable[Pause], entries: Iterable[str]) -> dict[str, dict[str, list[str]]]:
    """Return all texts for each field of each open form, by pause id."""
    shared, qualified = _fields_by_name(pauses)
    matches: dict[str, dict[str, list[str]]] = {}
    pairs = [entry.partition("=") for entry in entries if "=" in entry]
    for names in (shared, qualified):  # an answer to one form overrides an answer to all
        found: dict[str, dict[str, list[str]]] = {}
        for name, _, text in pairs:
            for id_, field in names.get(name, ()):
                found.setdefault(id_, {}).setdefault(field, []).append(text)
        for id_, fields in found.items():
            matches.setdefault(id_, {}).update(fields)
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


def _parse_texts(field: FormField, texts: Sequence[str]) -> Any:
    """Return the value that the last text stands for, or the files of all texts."""
    values = [parse_value(field, text) for text in texts]
    if not is_file(field.type):
        return values[-1]
    files: list[Any] = [value for value in values if isinstance(value, dict)]
    return files or values[-1]


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
    """Check values against a form."""
    _raise_problems(form_problems(as_declared(form), fields).values())


def as_declared(form: Iterable[FormField]) -> dict[str, dict[str, Any]]:
    """Return a form in the format in which a canvas declares it."""
    return {
        f.name: {"name": f.label, "type": f.type, "optional": f.is_optional, "options": list(f.options)} for f in form
    }


def parse_value(field: FormField, text: str) -> Any:
    """Parse text according to its field's type. In a field for files, ``@PATH`` is a file of this machine."""
    if is_file(field.type) and text.startswith("@"):
        return describe_file(text[1:])
    try:
        return convert_value(text, field.type, field.options)
    except UnfitValueError as error:
        raise AnswerError({"": f"{field.display_name} should be {error}, not {text!r:.80}."}) from None


def read_value(field: FormField, text: str) -> Any:
    """Parse text as `parse_value` does, and check the value."""
    value = parse_value(field, text)
    _raise_problems(form_problems(as_declared([field]), {field.name: value}).values())
    return value


def question_of(field: FormField) -> str:
    """Return the label of a field, with its options."""
    return f"{field.label} ({', '.join(map(str, field.options))})" if field.options else field.label


def is_interactive() -> bool:
    """Return whether standard input and output are terminals, so that a user can be prompted."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def default_text(field: FormField) -> str:
    """Return the default value of a field as the user would type it.

    A field for files has none: a canvas must not name files of this machine.
    """
    return "" if is_file(field.type) or field.value in (None, "", [], {}) else to_text(field.value)


def prompt_fields(form: Iterable[FormField], values: Mapping[str, Any]) -> dict[str, Any]:
    """Prompt for the required fields that have no value; without a terminal, return ``values`` unchanged."""
    fields = dict(values)
    if not is_interactive():
        return fields
    for field in form:
        while field.name not in fields and not field.is_optional:
            start = default_text(field)
            text = str(typer.prompt(question_of(field), default=start, show_default=bool(start)))
            try:
                fields[field.name] = read_value(field, text)
            except AnswerError as problem:
                typer.echo(str(problem), err=True)
    return fields
