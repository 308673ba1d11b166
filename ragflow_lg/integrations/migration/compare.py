"""``ragflow-lg compare``: ask a running RAGFlow and this engine the same questions; show both answers side by side."""

from __future__ import annotations

import asyncio
import re
import sys
from collections import Counter
from collections.abc import Callable
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.server.cli.options import AllowPrivate, Inputs, Model, SettingsFile
from ragflow_lg.server.cli.terminal import count_of, print_note, printable

if TYPE_CHECKING:
    from ragflow_lg.adapters.ragflow_api.api_client import RagflowApi
    from ragflow_lg.engine.compiled_canvas import CompiledCanvas
    from ragflow_lg.integrations.migration.two_sides import Fields, Turn
    from ragflow_lg.server.settings import Settings

Pieces = list[tuple[str, bool]]
"""The pieces of a text, each with whether the other side does not have it."""

MAX_TOKENS = 20_000
"""How many words are compared one by one."""


def compare(
    file: Annotated[Path, typer.Argument(help="Canvas file.", metavar="CANVAS")],
    with_: Annotated[str, typer.Option("--with", help="RAGFlow's address, as of its web page.", metavar="URL")],
    key_env: Annotated[str, typer.Option("--key-env", help="Variable with RAGFlow's API key.", metavar="NAME")],
    questions: Annotated[list[str] | None, typer.Argument(help="Questions.", metavar="QUESTION")] = None,
    lines: Annotated[Path | None, typer.Option("--questions", help="Also ask its lines.", metavar="FILE")] = None,
    session: Annotated[str, typer.Option("--session", "-s", help="Also ask what it was asked.", metavar="ID")] = "",
    agent: Annotated[str, typer.Option("--agent", help="The agent's id. Default: by title.", metavar="ID")] = "",
    together: Annotated[bool, typer.Option("--together", help="Ask all questions in one session.")] = False,
    inputs: Inputs = None,
    model: Model = "",
    output: Annotated[Literal["text", "html"], typer.Option("--output", "-o", help="html is a page.")] = "text",
    allow_private: AllowPrivate = False,
    settings: SettingsFile = None,
) -> None:
    """Ask a running RAGFlow and this engine the same questions.

    Answers and paths are shown side by side; a path are the nodes in the order in which they finished. Each question is
    asked in a session of its own, and those of --session, which is one over there, in one. What follows a form answers
    it. Nothing else is changed over there, and the sessions are deleted again.

    Exit code 0: answers and paths are the same. 1: some differ. 2: the canvas or the server cannot be asked.

    Examples:
    ragflow-lg compare canvas.json --with https://ragflow.example.com --key-env RAGFLOW_KEY "Where is my parcel?"

    ragflow-lg compare canvas.json --with URL --key-env RAGFLOW_KEY --questions lines.txt --output html > report.html
    """
    from ragflow_lg.integrations.migration.pull import show_progress
    from ragflow_lg.server.assembly.canvas_files import read_canvas
    from ragflow_lg.server.assembly.library import load_canvas
    from ragflow_lg.server.assembly.ragflow_connection import find_source, load_folder_settings, read_key, with_api
    from ragflow_lg.server.cli.form_fields import read_fields
    from ragflow_lg.server.cli.pages import render_page

    source = find_source(Path.cwd(), None, with_, key_env, is_private=allow_private)
    config = load_folder_settings(Path.cwd(), settings)
    canvas = load_canvas(file, config)
    fields = {name: {"value": value} for name, value in read_fields(canvas.plan.form, inputs or []).items()}
    text = read_canvas(lines).decode("utf-8-sig", "replace") if lines else ""
    asked = [*(questions or []), *filter(str.strip, text.splitlines())]
    if not asked and not session:
        raise typer.BadParameter("Name questions, a file with --questions, or a session with --session.")
    talks = [asked] if together and asked else [[each] for each in asked]
    with show_progress() as progress:
        work = _Comparison(canvas, file, config, model, agent, talks, session, fields, progress)
        report = with_api(config, source, read_key(source), work.run, timeout_s=600.0)
    if output == "html":
        sys.stdout.write(render_page("compare.html", Path(__file__).parent, report=report, url=source.url))
    else:
        _print_report(report)
    raise typer.Exit(int(any(pair.verdict != "same" for pair in report.pairs)))


class Row(NamedTuple):
    """What is compared, side by side."""

    label: str
    is_same: bool
    theirs: Pieces
    ours: Pieces


class Pair(NamedTuple):
    """A question, and what both sides did with it."""

    question: str
    rows: list[Row]
    seconds: tuple[float, float]
    was_asked: bool = True

    @property
    def verdict(self) -> str:
        """What differs, or ``same``."""
        if not self.was_asked:
            return "not asked"
        labels = ", ".join(row.label for row in self.rows if not row.is_same)
        return f"different: {labels}" if labels else "same"


class Report(NamedTuple):
    """All questions that were asked. ``names`` are what both sides are called."""

    pairs: list[Pair]
    names: tuple[str, str]
    agent: str

    @property
    def lead(self) -> str:
        """The result in a sentence."""
        same = sum(pair.verdict == "same" for pair in self.pairs)
        others = Counter(row.label for pair in self.pairs for row in pair.rows if not row.is_same)
        lines = [f"; different: {', '.join(f'{label} {n}' for label, n in others.items())}"] if others else []
        return "".join([f"{count_of(len(self.pairs), 'question')}: {same} same", *lines])


class _Comparison(NamedTuple):
    """What is asked: ``talks`` are the questions of each session, ``session`` is one over there with others."""

    canvas: CompiledCanvas
    file: Path
    settings: Settings
    model: str
    agent: str
    talks: list[list[str]]
    session: str
    inputs: Fields
    progress: Callable[[str], None]

    async def run(self, api: RagflowApi) -> Report:
        from ragflow_lg import __version__
        from ragflow_lg.adapters.ragflow_api.remote_server import recognise
        from ragflow_lg.integrations.migration.two_sides import Here, There, converse
        from ragflow_lg.server.cli.play import MEMORY, open_runner

        server = await recognise(api)
        id_, title = await _find_agent(api, self.agent, self.file)
        talks = [*self.talks, *([await _read_session(api, id_, self.session)] if self.session else [])]
        there, pairs = There(api, id_), list[Pair]()
        opened = open_runner(self.canvas, self.settings, MEMORY, canvas_id=str(self.file.resolve()), model=self.model)
        try:
            async with opened as (runner, _):
                for number, talk in enumerate(talks, 1):
                    self.progress(f"{number}/{len(talks)}: {talk[0]}")
                    both = (converse(side, talk, self.inputs) for side in (there, Here(runner)))
                    turns = await asyncio.gather(*both)
                    if not there.has_opened:
                        raise ServiceError(turns[0][0].error)
                    pairs += map(_pair, talk, *turns)
        finally:
            if there.left:
                print_note(f"These sessions could not be deleted over there: {', '.join(there.left)}.")
        return Report(pairs, (server.name, f"ragflow-lg {__version__}"), f"{title} ({id_})")


async def _find_agent(api: RagflowApi, wanted: str, file: Path) -> tuple[str, str]:
    """Return the id and the title of an agent: the wanted one, or the one with the id or title of the canvas."""
    from ragflow_lg.adapters.ragflow_api.api_client import read_object, read_text
    from ragflow_lg.adapters.ragflow_api.remote_agents import list_agents
    from ragflow_lg.server.assembly.canvas_files import read_canvas

    agents = {read_text(row, "id"): read_text(row, "title") for row in await list_agents(api)}
    about = read_object(read_canvas(file).decode("utf-8", "replace"))
    id_, title = wanted or read_text(about, "id"), about.get("title")  # that of a template is a map of languages
    names = [] if wanted else [title, file.stem] if title and isinstance(title, str) else [file.stem]
    by_name = ([each for each, known in agents.items() if known == name] for name in names)
    found = [id_] if id_ in agents else next((found for found in by_name if found), list[str]())
    if len(found) != 1:
        what = f"the id {id_!r}" if wanted else f"the title {' or '.join(map(repr, names))}"
        titles = ", ".join(f"{name} ({each})" for each, name in [*agents.items()][:20])
        raise SettingsError(f"{len(found) or 'No'} agents have {what}. Name one with --agent ID: {titles or 'none'}.")
    return found[0], agents[found[0]]


async def _read_session(api: RagflowApi, agent_id: str, session_id: str) -> list[str]:
    from ragflow_lg.adapters.ragflow_api.api_client import is_id
    from ragflow_lg.adapters.ragflow_api.remote_sessions import read_session

    session = await read_session(api, agent_id, session_id) if is_id(session_id) else None
    asked = [message.content for message in session.messages if message.role == "user"] if session else []
    if not asked:
        raise SettingsError(f"The agent has no session {session_id!r} with questions.")
    return asked


def _pair(question: str, *turns: Turn) -> Pair:
    from ragflow_lg.integrations.migration.two_sides import NOT_ASKED

    parts = {  # with what stands between them
        "answer": ("", [re.findall(r"\s+|\S+\s*", turn.said.text) for turn in turns]),
        "path": (" → ", [turn.path for turn in turns]),
        "form": (", ", [sorted(turn.form) for turn in turns]),
        "sources": (", ", [turn.sources for turn in turns]),
        "error": ("", [[turn.error] if turn.error else [] for turn in turns]),
    }
    rows = [Row(label, a == b, *_mark(a, b, joint)) for label, (joint, (a, b)) in parts.items() if a or b]
    was_asked = any(turn.error != NOT_ASKED for turn in turns)
    return Pair(question, rows, (turns[0].seconds, turns[1].seconds), was_asked)


def _mark(theirs: list[str], ours: list[str], joint: str) -> tuple[Pieces, Pieces]:
    """Return the pieces of both sides. Very long texts are one piece each."""
    if len(theirs) + len(ours) > MAX_TOKENS:
        theirs, ours = ["".join(theirs)], ["".join(ours)]
    pieces: tuple[Pieces, Pieces] = ([], [])
    for kind, *ends in SequenceMatcher(None, theirs, ours).get_opcodes():
        for side, tokens, start, end in zip(pieces, (theirs, ours), ends[::2], ends[1::2], strict=True):
            if start < end:
                text = joint.join(tokens[start:end]) + (joint if end < len(tokens) else "")
                side.append((text, kind != "equal"))
    return pieces


def _print_report(report: Report) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    def text(pieces: Pieces) -> Text:
        return Text.assemble(*((printable(piece), "yellow" if is_other else "") for piece, is_other in pieces))

    console = Console(file=sys.stdout, highlight=False, emoji=False, markup=False)
    for number, pair in enumerate(report.pairs, 1):
        console.print(Text(f"\n{number}. {printable(pair.question)}", "bold"))
        console.print(Text(f"   {pair.verdict}", "green" if pair.verdict == "same" else "yellow"))
        table = Table(box=None, padding=(0, 2, 0, 3), header_style="dim", expand=True)
        table.add_column(no_wrap=True)
        for name in report.names:
            table.add_column(Text(printable(name)), ratio=1, overflow="fold")
        for row in pair.rows:
            table.add_row(("= " if row.is_same else "≠ ") + row.label, text(row.theirs), text(row.ours))
        table.add_row("time", *(f"{seconds:.1f} s" for seconds in pair.seconds))
        console.print(table)
    console.print(Text(f"\n{report.lead}", "bold"))
