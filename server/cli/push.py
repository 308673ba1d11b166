"""``ragflow-lg push``: create or update agents on the RAGFlow of a pulled folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragflow_lg.server.cli.options import AllowPrivate, KeyVariable, ServerAddress, SettingsFile
from ragflow_lg.server.cli.terminal import print_line, print_note

if TYPE_CHECKING:
    from ragflow_lg.adapters.ragflow_api.api_client import RagflowApi
    from ragflow_lg.server.migration.folder import PulledFolder
    from ragflow_lg.server.migration.manifest import Manifest
    from ragflow_lg.server.migration.pusher import PushResult


def push(
    folder: Annotated[Path, typer.Argument(help="Folder that was pulled.", metavar="DIR")],
    agents: Annotated[
        list[str] | None, typer.Argument(help="Files, titles or ids. Default: all that changed.", metavar="[AGENT]…")
    ] = None,
    publish: Annotated[
        str | None, typer.Option("--publish", help="Publish what is pushed, with this comment.", metavar="COMMENT")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be pushed.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite what was changed there, and push canvases with errors.")
    ] = False,
    from_: ServerAddress = "",
    key_env: KeyVariable = "",
    allow_private: AllowPrivate = False,
    settings: SettingsFile = None,
) -> None:
    """Create or update agents on the RAGFlow of a pulled folder.

    An agent that was changed there since the pull is not overwritten. Keys that were left out of a file stay as they
    are there. Exit code 0: done. 1: some agents were refused.

    Examples:
    ragflow-lg push moved agents/customer_service.json

    ragflow-lg push moved --publish "Answers in French too"
    """
    from ragflow_lg.server.assembly.library import catalog
    from ragflow_lg.server.migration.connection import with_pulled_folder
    from ragflow_lg.server.migration.pusher import Pusher, choose_agents

    async def work(pulled: PulledFolder, manifest: Manifest, api: RagflowApi) -> bool:
        pusher = Pusher(api, pulled, manifest, catalog(), is_forced=force)
        is_done, problems = True, list[str]()
        for agent in choose_agents(pulled, agents or [], problems):
            result = await pusher.push(agent, comment=publish, is_dry=dry_run)
            _show(result)
            is_done = is_done and result.action != "refused"
        for problem in problems:
            print_note(f"- {problem}")
        return is_done and not problems

    is_done = with_pulled_folder(folder, settings, from_, key_env, work, is_private=allow_private)
    raise typer.Exit(0 if is_done else 1)


def _show(result: PushResult) -> None:
    if result.action:
        print_line(f"{result.action}: {result.status.title} ({result.status.file})")
    if result.problem:
        print_note(f"  {result.problem}")
