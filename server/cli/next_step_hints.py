"""Hints about the next command: commands for the same session, and answers to open forms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ragflow_lg.base.errors import AnswerError
from ragflow_lg.dsl.forms import FormField, form_fields, is_file
from ragflow_lg.server.cli.form_fields import match_fields, read_value
from ragflow_lg.server.cli.options import PlayOptions
from ragflow_lg.server.cli.terminal import format_command

if TYPE_CHECKING:
    from ragflow_lg.runs.pauses import Pause

_MODEL_COMMANDS = ("run", "resume", "continue", "rerun")


def next_command(options: PlayOptions, name: str, session: str, *words: str) -> str:
    """Return a command for the same session, with the same store, settings and model.

    A password in the store URL is masked.
    """
    values = {"--checkpoint": _mask_password(options.checkpoint), "--settings": str(options.settings or "")}
    if name in _MODEL_COMMANDS:
        values["--model"] = options.model or ""
    repeated = [word for option, value in values.items() if value for word in (option, value)]
    return format_command(name, session, *words, *repeated)


def _mask_password(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    login, at, host = rest.rpartition("@")
    user, colon, _ = login.partition(":")
    return f"{scheme}{separator}{user}:***@{host}" if at and colon else url


def waiting_hint(pauses: Sequence[Pause], options: PlayOptions, session: str, *, is_stored: bool) -> str:
    """Return a hint that a turn is waiting for an answer, with the command to answer it."""
    if not is_stored:
        advice = "To be able to answer, run it with --session NAME, and not in memory://."
        return f"The turn waits for an answer, but nothing is stored. {advice}"
    name = f"{pauses[0].node}@NAME" if len(pauses) > 1 else "NAME"
    fields = ["--input", f"{name}=VALUE"] if any(pause.inputs for pause in pauses) else []
    return f"The turn waits for an answer: {next_command(options, 'resume', session, *fields)}"


def failure_hint(node: str, options: PlayOptions, session: str) -> str:
    """Return a hint that a node next to an open form has failed, with the command to repeat it."""
    command = next_command(options, "rerun", session, "--from", node)
    return f"{node} has failed, so the turn fails after the answer. Repeat the node then; the answer is kept: {command}"


def answer_hint(pauses: Sequence[Pause], entries: Iterable[str], options: PlayOptions, session: str) -> str:
    """Return the names of the open forms, and a command that repeats the valid entries from the refused command."""
    if not pauses:
        return ""
    forms = " and ".join(f"{pause.node} ({', '.join(pause.inputs) or 'no fields'})" for pause in pauses)
    matches = match_fields(pauses, entries)
    targets = [pause for pause in pauses if matches.get(pause.id)] or pauses
    answers: dict[str, None] = {}
    for pause in targets:
        texts = matches.get(pause.id, {})
        for field in form_fields(pause.inputs):
            text = texts.get(field.name)
            if text is None and field.is_optional:
                continue
            name = field.name if len(pauses) == 1 else f"{pause.node}@{field.name}"
            answers[f"{name}={text if text is not None and _is_valid(field, text) else _placeholder(field)}"] = None
    words = [word for answer in answers for word in ("--input", answer)]
    subject = f"The form in {forms} is" if len(pauses) == 1 else f"The forms in {forms} are"
    return f"{subject} still open. Answer with: {next_command(options, 'resume', session, *words)}"


def _placeholder(field: FormField) -> str:
    return "@FILE" if is_file(field.type) else "VALUE"


def _is_valid(field: FormField, text: str) -> bool:
    try:
        read_value(field, text)
    except AnswerError:
        return False
    return True
