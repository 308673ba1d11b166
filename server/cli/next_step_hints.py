"""What to type next: commands that find the same session, and answers to open forms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from msgspec import Struct

from ragflow_lg.dsl.forms import FormField, form_fields, form_problems
from ragflow_lg.server.cli.form_fields import chosen_fields, declared_form, read_value
from ragflow_lg.server.cli.terminal import shown_command

if TYPE_CHECKING:
    from ragflow_lg.runs.pauses import Pause

__all__ = ["Place", "how_to_answer", "how_to_wait"]

_ASK_MODELS = ("run", "resume", "continue", "rerun")


class Place(Struct, frozen=True):
    """Where a command was told to find sessions, settings and models. What is typed next has to say so again."""

    checkpoint: str = ""
    settings: Path | None = None
    model: str = ""

    def command(self, name: str, session: str, *words: str) -> str:
        """Show a command for a session as it can be typed; a password in the URL is left out."""
        said = {"--checkpoint": _without_password(self.checkpoint), "--settings": str(self.settings or "")}
        if name in _ASK_MODELS:
            said["--model"] = self.model
        options = [word for option, value in said.items() if value for word in (option, value)]
        return shown_command(name, session, *words, *options)


def _without_password(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    login, at, host = rest.rpartition("@")
    user, colon, _ = login.partition(":")
    return f"{scheme}{separator}{user}:***@{host}" if at and colon else url


def how_to_wait(pauses: Sequence[Pause], place: Place, session: str, *, is_kept: bool) -> str:
    """Say that a turn waits for an answer, and how to give it."""
    if not is_kept:
        return "The turn waits for an answer: name a --session, in a store that lasts, to be able to answer"
    name = f"{pauses[0].node}@NAME" if len(pauses) > 1 else "NAME"
    fields = ["--input", f"{name}=VALUE"] if any(pause.inputs for pause in pauses) else []
    return f"The turn waits for an answer: {place.command('resume', session, *fields)}"


def how_to_answer(pauses: Sequence[Pause], given: Iterable[str], place: Place, session: str) -> str:
    """Name the forms that are still open, and show a command that keeps what was right in the one refused."""
    if not pauses:
        return ""
    forms = " and ".join(f"{pause.node} ({', '.join(pause.inputs) or 'no fields'})" for pause in pauses)
    chosen = chosen_fields(pauses, given)
    met = [pause for pause in pauses if chosen.get(pause.id)] or pauses
    answers: dict[str, None] = {}
    for pause in met:
        texts = chosen.get(pause.id, {})
        for field in form_fields(pause.inputs):
            text = texts.get(field.name)
            if text is None and field.is_optional:
                continue
            name = field.name if len(pauses) == 1 else f"{pause.node}@{field.name}"
            answers[f"{name}={text if text is not None and _fits(field, text) else 'VALUE'}"] = None
    words = [word for answer in answers for word in ("--input", answer)]
    still = f"The form of {forms} is" if len(pauses) == 1 else f"The forms of {forms} are"
    them = "it" if len(pauses) == 1 else "them"
    return f"{still} still open; answer {them} with: {place.command('resume', session, *words)}"


def _fits(field: FormField, text: str) -> bool:
    try:
        return not form_problems(declared_form([field]), {field.name: read_value(field, text)})
    except typer.BadParameter:
        return False
