"""The commands that the pages show: each one exists, and takes the arguments and options that stand there."""

import re
import shlex
from collections.abc import Iterator

import typer
from typer import Context as TyperContext
from typer.core import TyperGroup
from typer.exceptions import TyperException
from typer.main import get_command

from ragflow_lg.server.cli.command_line import app
from tests.harness.pages import PAGES, ROOT
from tests.harness.rows import each_row

SHOWING = ["CONTRIBUTING.md", "examples/README.md", *PAGES]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
SHELLS = ("", "sh", "bash", "console")
INLINE = re.compile(r"(?<!`)`ragflow-lg ([^`]+)`(?!`)", re.DOTALL)
START = re.compile(r"(?:^|\$ |\$\(|[;|&] |/bin/)ragflow-lg (?=[a-z-])")
END = re.compile(r"^(?:[|&;<>(){}]|[012]>)")
"""A word of the shell after which no argument follows."""

PARTS = ("Missing", "requires an argument", "does not exist")
"""What is no mistake: a page may name a command with one option, or a file that its reader has."""


def shown_commands(page: str) -> Iterator[list[str]]:
    """Go through the arguments of the commands that a page shows, but not through parts of commands."""
    text = (ROOT / page).read_text("utf-8")
    blocks = [block.replace("\\\n", " ") for language, block in BLOCK.findall(text) if language in SHELLS]
    lines = [line for block in blocks for line in block.splitlines()]
    found = [line[at.end() :] for line in lines if (at := START.search(line))]
    found += [" ".join(command.split()) for command in INLINE.findall(BLOCK.sub("", text))]
    for command in found:
        try:
            words = shlex.split(command.replace("\\|", "|").replace(")", " ) "), comments=True)
        except ValueError:
            continue  # a quotation begins on this line and ends on another one
        words = words[: next((at for at, word in enumerate(words) if END.match(word)), len(words))]
        if words and words[0] != "--install-completion" and not any("…" in word or word == "..." for word in words):
            yield words


def mistake(words: list[str]) -> str:
    """Parse a command line, in which capitals such as DAYS stand for values. Return what is wrong with it."""
    command, rest = get_command(app), ["1" if word.isupper() else word for word in words]
    context = TyperContext(command)
    while isinstance(command, TyperGroup) and rest:
        try:
            inner = command.get_command(context, rest[0])
        except TyperException as error:
            return str(error)
        if inner is None:
            break
        command, rest = inner, rest[1:]
    if isinstance(command, TyperGroup) and rest and not rest[0].startswith("-"):
        return f"There is no command {rest[0]}."
    if not rest:
        return ""
    try:
        command.make_context("ragflow-lg", list(rest))
    except typer.Exit:
        return ""  # after the help or the version
    except TyperException as error:
        return "" if any(part in str(error) for part in PARTS) else str(error)
    return ""


@each_row("page", SHOWING)
def test_the_commands_of_a_page_are_understood(page: str) -> None:
    found = {shlex.join(words): mistake(words) for words in shown_commands(page)}
    assert {command: text for command, text in found.items() if text} == {}


def test_mistakes_are_found() -> None:
    assert "No such option" in mistake(["run", "canvas.json", "question", "--sesion", "ben"])
    assert mistake(["rum", "canvas.json"]) == "There is no command rum."
    assert "is not one of" in mistake(["run", "canvas.json", "--events", "colourful"])
    assert mistake(["sessions", "prune", "anna", "--keep-turns", "20"]) == ""


def test_the_pages_show_many_commands() -> None:
    assert sum(1 for page in SHOWING for _ in shown_commands(page)) > 200
