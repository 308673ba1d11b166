"""``ragflow-lg kb add``: take files into a dataset."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.cli.kb_database import tell
from ragflow_lg.server.cli.options import SettingsFile
from ragflow_lg.server.cli.terminal import counted, printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from ragflow_lg.adapters.knowledge.embedders import ConfiguredEmbedders
    from ragflow_lg.adapters.knowledge.indexing import AddedFiles, Progress
    from ragflow_lg.adapters.knowledge.knowledge_records import DatasetRecord
    from ragflow_lg.server.assembly.knowledge_sources import SettingsKnowledge
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.services.knowledge import Embedder

__all__ = ["add"]

_BATCH = 256
"""How many chunks are stored together where no endpoint is asked."""

_SHOWN = 3
"""How many files of other kinds are named."""


def add(
    paths: Annotated[list[Path], typer.Argument(help="Files and folders.", metavar="PATH...")],
    dataset: Annotated[
        str, typer.Option("--dataset", "-d", help="Name or id. Default: the folder's name.", metavar="DATASET")
    ] = "",
    embedding: Annotated[
        str, typer.Option("--embedding", help='ID of [embeddings."ID"] for a new dataset.', metavar="ID")
    ] = "",
    prune: Annotated[bool, typer.Option("--prune", help="Delete documents whose files are gone.")] = False,
    parallel: Annotated[int, typer.Option(help="Requests to the embedding model at once.", min=1, max=64)] = 4,
    settings: SettingsFile = None,
) -> None:
    """Take files into a dataset, which is made if there is none: txt, md, html, csv, json, docx, pdf, xlsx.

    Only new and changed files are read. When it was stopped, the same command goes on.

    Exit code 0: all is in. 1: some file could not be read.

    Examples:
    ragflow-lg kb add examples/handbook

    ragflow-lg kb add reports/2026.pdf --dataset reports
    """
    import asyncio

    from ragflow_lg.base.errors import ServiceError
    from ragflow_lg.server.assembly.knowledge_sources import SettingsKnowledge
    from ragflow_lg.server.settings import load_settings

    loaded = load_settings(settings)
    for path in paths:
        if not path.exists():
            raise SettingsError(f"There is no file or folder {str(path)!r}.")

    async def take_in() -> bool:
        knowledge = SettingsKnowledge(loaded)
        try:
            return all([await _add(path, dataset, embedding, prune, parallel, loaded, knowledge) for path in paths])
        except ServiceError as error:
            advice = "What was stored stays; the same command goes on where it was."
            raise ServiceError(f"{error}\n{advice}") from error
        finally:
            await knowledge.aclose()

    raise typer.Exit(0 if asyncio.run(take_in()) else 1)


async def _add(
    path: Path, name: str, embedding: str, prune: bool, parallel: int, settings: Settings, knowledge: SettingsKnowledge
) -> bool:
    """Take in one file or folder; tell whether all of it could be read."""
    from ragflow_lg.adapters.knowledge.indexing import Indexer
    from ragflow_lg.adapters.knowledge.source_files import other_files, source_files, source_name

    files, root = list(source_files(path)), Path(source_name(path))
    usual = root.parent.name if [file.path for file in files] == [path] else root.name
    database = knowledge.embedded().database
    dataset, embedder = _dataset(knowledge, name or usual or "files", embedding)
    section = settings.embeddings.get(embedder.name)
    with _shown_progress(dataset.name) as show:
        indexer = Indexer(
            database, dataset, embedder, batch=section.batch if section else _BATCH, parallel=parallel, tell=show
        )
        report = await indexer.add(files, str(root))
    if prune and report.missing:
        _prune(knowledge, dataset, report.missing)
    if others := list(other_files(path)):
        more = f" and {len(others) - _SHOWN:,} more" if len(others) > _SHOWN else ""
        _say(f"· {', '.join(others[:_SHOWN])}{more}: no kind of file that is read, left out.")
    _tell_report(report, dataset, embedder, prune=prune)
    if not files:
        tell(f"{path} has no file that can be read.")
    _warn_of_size(knowledge, dataset)
    return not report.failed


def _dataset(knowledge: SettingsKnowledge, name: str, embedding: str) -> tuple[DatasetRecord, Embedder]:
    """Find or make the dataset, and find its embedding model."""
    from ragflow_lg.adapters.knowledge.knowledge_records import add_dataset, find_dataset
    from ragflow_lg.base.errors import SettingsError

    embedders: ConfiguredEmbedders = knowledge.embedders()
    wanted = embedding or embedders.default
    embedders.embedder(wanted)
    with knowledge.embedded().database.writing() as connection:
        found = find_dataset(connection, name) or add_dataset(connection, name, wanted)
    if embedding and found.embedding_model != embedding:
        raise SettingsError(
            f"The dataset {name!r} was made with the embedding model {found.embedding_model!r}; vectors of two models "
            "cannot be compared. Leave --embedding out, or choose another name with --dataset."
        )
    return found, embedders.embedder(found.embedding_model)


def _prune(knowledge: SettingsKnowledge, dataset: DatasetRecord, names: list[str]) -> None:
    from ragflow_lg.adapters.knowledge.knowledge_records import delete_document, documents_of

    with knowledge.embedded().database.writing() as connection:
        for document in documents_of(connection, dataset.number):
            if document.name in names:
                delete_document(connection, dataset.number, document.number)


def _warn_of_size(knowledge: SettingsKnowledge, dataset: DatasetRecord) -> None:
    from ragflow_lg.adapters.knowledge.indexing import MAX_CHUNKS
    from ragflow_lg.adapters.knowledge.knowledge_records import find_dataset

    with knowledge.embedded().database.reading() as connection:
        held = find_dataset(connection, dataset.id)
    if held is not None and held.chunks > MAX_CHUNKS:
        size_gb = held.chunks * held.dims * 4 / 1e9
        _say(
            f"{held.name} has {held.chunks:,} chunks now. Above {MAX_CHUNKS:,} a server is the better place: every "
            f"search goes through {size_gb:.1f} GB of vectors in memory. See docs/knowledge.md."
        )


def _tell_report(report: AddedFiles, dataset: DatasetRecord, embedder: Embedder, *, prune: bool) -> None:
    for name, why in report.failed.items():
        _say(f"✗ {name}: {why}.")
    for name, first in report.duplicates.items():
        _say(f"= {name}: the same as {first}, left out.")
    for name in report.missing:
        _say(f"- {name}: its file is gone; {'deleted.' if prune else 'delete it with --prune.'}")
    counts = ((report.added, "added"), (report.changed, "changed"), (report.unchanged, "unchanged"))
    told = [f"{len(names)} {what}" for names, what in counts]
    told += [f"{len(report.failed)} failed"] if report.failed else []
    told += [counted(len(report.duplicates), "duplicate")] if report.duplicates else []
    tell(f"{dataset.name}: {', '.join(told)}; {counted(report.chunks, 'new chunk')}")
    if embedder.is_stand_in:
        _say(f'Vectors: {embedder.name}. For meanings set [embeddings."ID"] (docs/knowledge.md).')


@contextmanager
def _shown_progress(name: str) -> Generator[Callable[[Progress], None]]:
    """Show a bar on a terminal, nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),  # a name is no format
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[chunks]}"),
    )
    with Bar(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(escape(printable(name)), total=None, chunks="")

        def show(progress: Progress) -> None:
            bar.update(
                task, completed=progress.files, total=progress.all_files, chunks=f"files, {progress.chunks:,} chunks"
            )

        yield show


def _say(text: str) -> None:
    sys.stderr.write(printable(text + "\n"))
