"""``ragflow-lg pull``: fetch agents, sessions and datasets from a running RAGFlow."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from ragflow_lg.base.errors import CompileError, SettingsError
from ragflow_lg.server.cli.needs import write_settings as write_missing
from ragflow_lg.server.cli.options import AllowPrivate, KeyVariable, ServerAddress, SettingsFile
from ragflow_lg.server.cli.terminal import count_of, format_command, print_line, print_note

if TYPE_CHECKING:
    from ragflow_lg.adapters.ragflow_api.api_client import RagflowApi
    from ragflow_lg.adapters.ragflow_api.remote_agents import RemoteMcpServer
    from ragflow_lg.adapters.ragflow_api.remote_datasets import RemoteDataset
    from ragflow_lg.integrations.migration.folder import Manifest, PulledFolder
    from ragflow_lg.integrations.migration.folder_import import ImportReport
    from ragflow_lg.integrations.migration.puller import PullReport
    from ragflow_lg.server.assembly.ragflow_connection import Source
    from ragflow_lg.server.settings import Settings

INTERVAL_S = 2.0
"""Time between two lines where they stay."""


@contextlib.contextmanager
def show_progress() -> Generator[Callable[[str], None]]:
    """Yield a function that shows a line of progress: in place on a terminal, otherwise one in a while."""
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, highlight=False)
    shown_at, waiting = -INTERVAL_S, Text()
    with console.status("") as status:

        def show(line: str) -> None:
            nonlocal shown_at, waiting
            waiting = Text("".join(c if c.isprintable() else " " for c in line)[:110])
            if console.is_terminal:
                status.update(waiting)
            elif time.monotonic() - shown_at >= INTERVAL_S:
                shown_at = time.monotonic()
                console.print(waiting, soft_wrap=True)
                waiting = Text()

        yield show
    if waiting and not console.is_terminal:  # the last line
        console.print(waiting, soft_wrap=True)


MAX_SHOWN = 20
"""How many problems are printed; all of them are in the list in the folder."""


def pull(
    folder: Annotated[Path, typer.Argument(help="Folder for the agents; it is created.", metavar="DIR")],
    from_: ServerAddress = "",
    key_env: KeyVariable = "",
    sessions: Annotated[bool, typer.Option("--sessions", help="Pull sessions too; they go on here.")] = False,
    copy_datasets: Annotated[
        bool, typer.Option("--copy-datasets", help="Copy the datasets instead of searching them on the server.")
    ] = False,
    embedding: Annotated[
        str, typer.Option("--embedding", help='ID of [embeddings."ID"] for copies. Default: the model of each dataset.')
    ] = "",
    files_only: Annotated[
        bool, typer.Option("--files-only", help="Write files only; do not store agents and sessions for `serve`.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace agents that were changed here.")] = False,
    allow_private: AllowPrivate = False,
    settings: SettingsFile = None,
) -> None:
    """Fetch agents, sessions and datasets from a running RAGFlow.

    Agents become files that `run`, `check` and git understand, and agents of `serve` under the same ids. Sessions
    become threads: the next turn continues. Keys are not copied; TO_SET.md lists what to set. A pull that was stopped
    goes on when it is run again. Exit code 0: done. 1: some parts need attention.

    Examples:
    ragflow-lg pull --from https://ragflow.example.com --key-env RAGFLOW_KEY moved --sessions

    ragflow-lg pull moved   (again, later)
    """
    from ragflow_lg.integrations.migration.folder import Manifest, PulledFolder
    from ragflow_lg.server.assembly.ragflow_connection import (
        Source,
        find_source,
        load_folder_settings,
        read_key,
        remember_source,
        with_api,
    )

    _require_own_folder(folder)
    pulled = PulledFolder(folder.resolve())
    known = pulled.read_manifest()
    said = Source(known.url, known.key_env) if known else None
    source = find_source(pulled.path, said, from_, key_env, is_private=allow_private)
    config, key = load_folder_settings(pulled.path, settings), read_key(source)
    manifest = known or Manifest()
    manifest.url, manifest.key_env = source.url, source.key_env
    own_settings = settings.resolve() if settings else None
    pulled.path.mkdir(parents=True, exist_ok=True)
    # The working folder is that of `serve` there, for relative paths in the settings.
    with contextlib.chdir(pulled.path), show_progress() as progress:
        options = (sessions, copy_datasets, embedding, force, files_only)
        work = _Pull(pulled, manifest, source, own_settings, *options, progress)
        report, arrived = with_api(config, source, key, work.run)
    remember_source(pulled.path, source)
    problems = [*report.problems, *(arrived.problems if arrived else ())]
    _print_report(folder, report, arrived, problems)
    raise typer.Exit(1 if problems or report.kept else 0)


def _require_own_folder(folder: Path) -> None:
    from ragflow_lg.integrations.migration.folder import FILE_NAME
    from ragflow_lg.server.settings.trusted_folders import is_trusted

    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise SettingsError(f"{str(folder)!r} is not a folder.")
    if folder.is_dir() and not (folder / FILE_NAME).exists():
        names = [path.name for path in folder.iterdir()]
        if any(not name.startswith(".") for name in names):
            raise SettingsError(f"{str(folder)!r} has files and was not pulled. Choose a new folder.")
    if (folder / ".env").exists() and not is_trusted("settings", folder):
        # The pull trusts the settings that it writes, and with them what lies beside them.
        raise SettingsError(
            f"{str(folder)!r} has a .env, and is not trusted: variables can decide which server receives a key. "
            f"If you know the file, run `ragflow-lg trust {folder}`."
        )


class _Pull(NamedTuple):
    """One pull, from the list of agents to the list of what is to be set."""

    folder: PulledFolder
    manifest: Manifest
    source: Source
    settings_file: Path | None
    has_sessions: bool
    copies: bool
    embedding: str
    is_forced: bool
    files_only: bool
    progress: Callable[[str], None]

    async def run(self, api: RagflowApi) -> tuple[PullReport, ImportReport | None]:
        """Pull and move in. The working folder is the folder."""
        from ragflow_lg.adapters.ragflow_api import remote_agents, remote_datasets
        from ragflow_lg.adapters.ragflow_api.remote_server import recognise
        from ragflow_lg.integrations.migration.folder import PulledDataset
        from ragflow_lg.integrations.migration.puller import Puller

        folder, manifest = self.folder, self.manifest
        server = await recognise(api)
        print_note(f"{self.source.url} is {server.name}.")
        if server.limits:
            print_note("\n- ".join(["What cannot come over:", *server.limits]))
        puller = Puller(api, folder, manifest, self.progress, self.is_forced)
        report = await puller.pull(with_sessions=self.has_sessions)
        servers = await remote_agents.list_mcp_servers(api)
        if servers is None:
            hint = "the server does not list its MCP servers for an API key; add them to the settings"
            report.problems.append(hint)
        datasets = await remote_datasets.list_datasets(api)
        settings = self._write_settings(servers or (), is_linked=bool(datasets) and not self.copies)
        for dataset in datasets:
            known = manifest.datasets.get(dataset.id)
            if known is None or not known.is_copied:
                manifest.datasets[dataset.id] = PulledDataset(dataset.name, False, dataset.embedding_model)
        if self.copies:
            await self._copy_datasets(api, datasets, settings, report)
        folder.write_manifest(manifest)
        arrived = None if self.files_only else await self._move_in(settings)
        problems = [*report.kept, *report.problems, *(arrived.problems if arrived else ())]
        _write_list(folder, manifest, settings, report, servers or (), problems)
        return report, arrived

    async def _move_in(self, settings: Settings) -> ImportReport:
        from ragflow_lg.integrations.migration.folder_import import FolderImport

        try:
            return await FolderImport(self.folder, self.manifest, settings, self.progress).move_in()
        finally:
            self.folder.write_manifest(self.manifest)

    def _write_settings(self, servers: Sequence[RemoteMcpServer], *, is_linked: bool) -> Settings:
        """Write the settings if the folder has none, or those of an earlier pull; trust and load them."""
        from ragflow_lg.integrations.migration.settings_text import SETTINGS_FILE, write_settings
        from ragflow_lg.server.settings import load_settings
        from ragflow_lg.server.settings.trusted_folders import trust

        text, other = (
            write_settings(self.source.url, self.source.key_env, servers, is_linked=variant).encode()
            for variant in (is_linked, not is_linked)
        )
        before = self.folder.read(SETTINGS_FILE)
        # Datasets that were links are copied now; nothing else replaces a file that its user may have changed.
        if before is None or (before == other and not is_linked):
            self.folder.write(SETTINGS_FILE, text)
            trust("settings", self.folder.path)
        return load_settings(self.settings_file)

    async def _copy_datasets(
        self, api: RagflowApi, datasets: Sequence[RemoteDataset], settings: Settings, report: PullReport
    ) -> None:
        from ragflow_lg.base.errors import ServiceError
        from ragflow_lg.component.integration import load_store
        from ragflow_lg.integrations.migration.folder import PulledDataset

        embedding = self.embedding
        async with contextlib.aclosing(load_store("sqlite").SettingsKnowledge(settings)) as knowledge:
            knowledge.embedded()  # raises if the datasets are elsewhere
            for dataset in datasets:
                try:
                    await knowledge.copy_dataset(api, dataset, embedding, self.progress)
                except (ServiceError, SettingsError) as error:
                    report.problems.append(f"dataset {dataset.name}: {error}")
                    continue
                model = embedding or dataset.embedding_model
                self.manifest.datasets[dataset.id] = PulledDataset(dataset.name, True, model)


def _write_list(
    folder: PulledFolder,
    manifest: Manifest,
    settings: Settings,
    report: PullReport,
    servers: Sequence[RemoteMcpServer],
    problems: Sequence[str],
) -> None:
    """Write the list of what is to be set. Canvases with errors become problems."""
    from ragflow_lg.integrations.migration.puller import first_problem
    from ragflow_lg.integrations.migration.settings_text import LIST_FILE, write_list
    from ragflow_lg.server.assembly.canvas_needs import list_needs
    from ragflow_lg.server.assembly.library import load_canvas

    missing: list[str] = []
    for agent in manifest.agents.values():
        file = folder.absolute(agent.file)
        if not file.is_file():
            continue
        try:
            canvas = load_canvas(file, settings, asks_servers=False)
        except CompileError as error:
            reason = first_problem(error)
            report.problems.append(f"{agent.file} has errors: see `ragflow-lg check {agent.file}` ({reason})")
            continue
        # Without a default model, the demo answers where a node names none.
        needs = [n for n in list_needs(canvas.plan, settings) if n.state in ("missing", "demo")]
        missing += [write_missing(needs)] if needs else []
    parts = dict.fromkeys("\n".join(missing).split("\n\n"))
    sections = "\n".join(sorted(parts, key=lambda part: "\ndefault_model" not in part))  # it belongs before all tables
    every = list(dict.fromkeys([*problems, *report.problems]))
    folder.write(LIST_FILE, write_list(report.blanked, servers, sections, every).encode())


def _print_report(folder: Path, report: PullReport, arrived: ImportReport | None, problems: Sequence[str]) -> None:
    print_line(f"{count_of(report.written, 'agent')} written, {report.unchanged} unchanged, in {folder}")
    if report.sessions or (arrived and arrived.sessions):
        print_line(f"{count_of(report.sessions, 'session')} pulled")
    if arrived:
        print_line(f"{count_of(arrived.agents, 'agent')} and {count_of(arrived.sessions, 'session')} moved in")
        if arrived.sessions:
            print_line(f"the same messages as there: {arrived.checked}; waiting for an answer: {arrived.waiting}")
    for line in [*report.kept, *problems][:MAX_SHOWN]:
        print_note(f"- {line}")
    if len(problems) > MAX_SHOWN:
        print_note(f"- and {len(problems) - MAX_SHOWN} more")
    print_note(f"Next: read {folder / 'TO_SET.md'}, set the keys, then")
    print_note(f"  cd {folder} && {format_command('serve')}")
