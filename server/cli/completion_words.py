"""The words that can stand at the end of a command line, such as names of sessions, nodes, components and prompts.

Nothing is asked or created: an unknown store or canvas has no values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import typer
from msgspec import Struct

from ragflow_lg.base.errors import RagflowLgError
from ragflow_lg.server.cli.command_line import COMMANDS, command_line

if TYPE_CHECKING:
    from ragflow_lg.checkpoints import Store
    from ragflow_lg.services.sessions import RunRecord

Given = Mapping[str, str]
Provide = Callable[[Sequence[str], Given], Iterable[str]]
"""Returns values for a place after these arguments and options of the command."""

MAX_SESSIONS = 500


def session_names(words: Sequence[str], given: Given) -> list[str]:
    """Return the names of the stored sessions, newest first."""
    return [record.name or record.session for record in _records(given)]


def node_names(words: Sequence[str], given: Given) -> list[str]:
    """Return the ids and titles of the nodes in the canvas of a session."""
    from ragflow_lg.server.assembly.canvas_files import read_canvas
    from ragflow_lg.server.assembly.library import catalog

    session = words[0] if words else ""
    used = (record.canvas_id for record in _records(given) if session in (record.name, record.session))
    file = given.get("canvas") or next(used, "")
    try:
        content = read_canvas(Path(file)) if file else b""
    except RagflowLgError:
        return []
    from ragflow_lg.dsl_compiler import check_canvas

    plan = check_canvas(content, catalog())[0] if content else None
    nodes = list(plan.nodes.values()) if plan is not None else []
    return [*(node.id for node in nodes), *(node.title for node in nodes if node.title)]


def component_names(words: Sequence[str], given: Given) -> list[str]:
    """Return the names of all components and tools."""
    from ragflow_lg.server.assembly.library import catalog

    return [spec.name for spec in catalog()]


def prompt_names(words: Sequence[str], given: Given) -> list[str]:
    """Return the names of the engine's prompts."""
    from ragflow_lg.models.prompt_texts import PROMPTS

    return list(PROMPTS)


def _records(given: Given) -> list[RunRecord]:
    """Return the newest run of each session, or nothing if the store cannot be read or is not there yet."""
    from ragflow_lg.server.cli.session_store import use_store
    from ragflow_lg.server.settings import load_settings

    async def read(store: Store) -> list[RunRecord]:
        records: list[RunRecord] = []
        async for record in store.runs.sessions():
            records.append(record)
            if len(records) == MAX_SESSIONS:
                break
        return records

    try:
        settings = load_settings(Path(given["settings"]) if given.get("settings") else None)
        return use_store(settings, given.get("checkpoint", ""), read)
    except (OSError, RagflowLgError):
        return []


VALUES: Mapping[tuple[str, str], Provide] = {
    ("", "session"): session_names,
    ("sessions", "delete"): session_names,
    ("rerun", "node"): node_names,
    ("components", "name"): component_names,
    ("prompts", "name"): prompt_names,
}
"""What completes a parameter of a command; an empty command stands for all of them."""


FILES = ":files"
"""Stands for the names of files, which shells complete themselves."""


def complete_words(words: Sequence[str]) -> list[str]:
    """Return what can take the place of the last word, after the name of the program; `FILES` stands for files."""
    *before, current = words
    place = _Place.find(before)
    if place.option is not None:
        return _matching(_values(place.option, place), current)
    name, equals, value = current.partition("=")
    if equals and (option := place.options.get(name)):
        return [f"{name}={each}" for each in _matching(_values(option, place), value) if each != FILES]
    if current.startswith("-"):
        return _matching(place.options, current)
    if place.subcommands:
        return [] if place.words else _matching(place.subcommands, current)
    return _matching(_values(place.argument, place) if place.argument else (), current)


def complete_line(line: str) -> list[str]:
    """Return what can take the place of the last word of a line in bash, quoted as its last word is.

    Bash takes ``:`` and ``=`` as the end of a word, and replaces only what follows.
    """
    words, raw, quote = _split(line)
    found = complete_words(words[1:] if len(words) > 1 else [""])
    if quote:
        return [word.replace(quote, f"{quote}\\{quote}{quote}") for word in found]
    typed = raw[: max(raw.rfind(":"), raw.rfind("=")) + 1]
    texts = [word if word == FILES else re.sub(r"([^\w@%+=:,./-])", r"\\\1", word) for word in found]
    return [text.removeprefix(typed) for text in texts]


class _Place(Struct):
    """Where the last word stands: after an option that takes a value, or where arguments and options may follow."""

    command: str
    words: list[str]
    """The arguments of the command before this place."""

    given: dict[str, str]
    """The values of options before this place, by parameter."""

    options: dict[str, Any]
    subcommands: list[str]
    option: Any = None
    argument: Any = None

    @classmethod
    def find(cls, before: Sequence[str]) -> _Place:
        """Read the words before the last one."""
        here: Any = typer.main.get_command(command_line(before))
        place = cls("", [], {}, _options_of(here), list(COMMANDS))
        for word in before:
            if place.option is not None:
                place.given[place.option.name] = word
                place.option = None
            elif word.startswith("-") and word != "-":
                name, equals, value = word.partition("=")
                option = place.options.get(name)
                if option is not None and equals:
                    place.given[option.name] = value
                elif option is not None and not option.is_flag:
                    place.option = option
            elif word in place.subcommands and word in here.commands:
                here = here.commands[word]
                place.command = f"{place.command} {word}".strip()
                place.options, place.subcommands = _options_of(here), list(getattr(here, "commands", ()))
            else:
                place.words.append(word)
        arguments = [param for param in here.params if param.param_type_name == "argument" and not param.hidden]
        if arguments and (len(place.words) < len(arguments) or arguments[-1].nargs == -1):
            place.argument = arguments[min(len(place.words), len(arguments) - 1)]
        return place


def _options_of(command: Any) -> dict[str, Any]:
    """Return the options of a command by name, with --help."""
    options = {
        name: param
        for param in command.params
        if param.param_type_name == "option" and not param.hidden
        for name in (*param.opts, *param.secondary_opts)
    }
    return {**options, "--help": _Flag(), "-h": _Flag()}


class _Flag(Struct):
    name: str = "help"
    is_flag: bool = True


def _values(param: Any, place: _Place) -> Iterable[str]:
    if provide := VALUES.get((place.command, param.name)) or VALUES.get(("", param.name)):
        return provide(place.words, place.given)
    annotation = param.type_descriptor.annotation
    kinds = (annotation, *get_args(annotation))
    if choices := [value for kind in kinds if get_origin(kind) is Literal for value in get_args(kind)]:
        return choices
    kind = kinds[-1] if len(kinds) == 1 else kinds[1]
    return [FILES] if isinstance(kind, type) and issubclass(kind, Path) else []


def _matching(values: Iterable[str], current: str) -> list[str]:
    start = current.casefold()
    return list(dict.fromkeys(value for value in values if value == FILES or value.casefold().startswith(start)))


def _split(line: str) -> tuple[list[str], str, str]:
    """Split a line as bash does. Return its words, the last word as typed, and the quote that is still open."""
    words: list[str] = [""]
    begin, quote = 0, ""
    characters: Iterator[tuple[int, str]] = iter(enumerate(line))
    for position, character in characters:
        if character == "\\" and quote != "'":
            words[-1] += next(characters, (0, ""))[1]
        elif quote:
            quote, words[-1] = ("", words[-1]) if character == quote else (quote, words[-1] + character)
        elif character in "'\"":
            quote = character
        elif character.isspace():
            if position > begin:
                words.append("")
            begin = position + 1
        else:
            words[-1] += character
    return words, line[begin:], quote
