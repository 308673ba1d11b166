"""``ragflow-lg status``: what differs between a pulled folder and its RAGFlow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragflow_lg.server.cli.diff import as_lines
from ragflow_lg.server.cli.options import AllowPrivate, KeyVariable, ServerAddress, SettingsFile
from ragflow_lg.server.cli.terminal import count_of, print_line, print_note

if TYPE_CHECKING:
    from ragflow_lg.adapters.ragflow_api.api_client import RagflowApi
    from ragflow_lg.component.registry import Registry
    from ragflow_lg.server.migration.folder import PulledFolder
    from ragflow_lg.server.migration.manifest import Manifest
    from ragflow_lg.server.migration.pusher import AgentStatus


def status(
    folder: Annotated[Path, typer.Argument(help="Folder that was pulled.", metavar="DIR")],
    show_all: Annotated[bool, typer.Option("--all", "-a", help="Also list agents without a difference.")] = False,
    from_: ServerAddress = "",
    key_env: KeyVariable = "",
    allow_private: AllowPrivate = False,
    settings: SettingsFile = None,
) -> None:
    """Show what differs between a pulled folder and its RAGFlow.

    Each line says what to do about it.

    Canvases are compared as by `diff`: from the server's to the file's. Exit code 0: no difference. 1: differences.

    Example: ragflow-lg status moved
    """
    from ragflow_lg.server.assembly.library import catalog
    from ragflow_lg.server.migration.connection import with_pulled_folder
    from ragflow_lg.server.migration.pusher import read_status

    async def work(pulled: PulledFolder, manifest: Manifest, api: RagflowApi) -> int:
        problems, count = list[str](), 0
        async for each in read_status(api, pulled, manifest, problems):
            count += each.state != "same" or bool(each.new_sessions)
            _show(each, catalog(), show_all=show_all)
        for problem in problems:
            print_note(f"- {problem}")
        return count + len(problems)

    count = with_pulled_folder(folder, settings, from_, key_env, work, is_private=allow_private)
    if not count:
        print_line("No difference.")
    raise typer.Exit(1 if count else 0)


def _show(each: AgentStatus, catalog: Registry, *, show_all: bool) -> None:
    from ragflow_lg.server.migration.agent_changes import ADVICE
    from ragflow_lg.server.migration.pusher import describe_difference

    if each.state != "same" or show_all:
        advice = f"  ({ADVICE[each.state]})" if ADVICE[each.state] else ""
        print_line(f"{each.state:<13}  {each.title}  {each.file}{advice}")
    if each.state != "same":
        found = describe_difference(each, catalog)
        lines = [found] if isinstance(found, str) else list(as_lines(found))
        if not lines and each.here and each.there:
            lines = ["only the layout or the description"]
        for line in lines:
            print_line(f"    {line}")
    if each.new_sessions:
        print_line(
            f"    {count_of(each.new_sessions, 'session')} changed there (`ragflow-lg pull --sessions`): {each.title}"
        )
