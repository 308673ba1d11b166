"""``ragflow-lg kb add``: add files to a dataset."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.base.similar_files import suggest_file
from ragflow_lg.server.cli.options import SettingsFile
from ragflow_lg.server.cli.terminal import count_of, print_line, print_note, printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from ragflow_lg.adapters.knowledge.endpoint_embedder import ConfiguredEmbedders
    from ragflow_lg.adapters.knowledge.indexing import AddedFiles, Progress
    from ragflow_lg.adapters.knowledge.knowledge_records import DatasetRecord
    from ragflow_lg.server.assembly.knowledge_sources import SettingsKnowledge
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.services.knowledge import Embedder

_BATCH = 256
"""Number of chunks stored in one transaction if vectors are computed without an endpoint."""

_MAX_NAMES = 3
"""Maximum number of skipped files to name."""


def add(
    paths: Annotated[list[Path], typer.Argument(help="Files and folders.", metavar="PATH...")],
    dataset: Annotated[
        str,
        typer.Option(
            "--dataset", "-d", help="Name or id of the dataset. Default: the folder's name.", metavar="DATASET"
        ),
    ] = "",
    embedding: Annotated[
        str,
        typer.Option("--embedding", help='ID of [embeddings."ID"] for a new dataset.', metavar="ID"),
    ] = "",
    prune: Annotated[bool, typer.Option("--prune", help="Delete documents whose files no longer exist.")] = False,
    parallel: Annotated[int, typer.Option(help="Parallel requests to the embedding model.", min=1, max=64)] = 4,
    settings: SettingsFile = None,
) -> None:
    """Add txt, md, html, csv, json, docx, pdf and xlsx files to a dataset, which is created if missing.

    Only new and changed files are read. After an interruption, run the same command again: it continues.

    Exit code 0: all files were added. 1: some files could not be read.

    Examples:
    ragflow-lg kb add examples/handbook

    ragflow-lg kb add reports/2026.pdf --dataset reports
    """
    import asyncio

    from ragflow_lg.base.errors import ServiceError
    from ragflow_lg.server.assembly.knowledge_sources import SettingsKnowledge
    from ragflow_lg.server.settings import load_settings

    config = load_settings(settings)
    for path in paths:
        if not path.exists():
            raise SettingsError(f"The file or folder {str(path)!r} does not exist.{suggest_file(path)}")

    async def add_all() -> bool:
        try:
            async with aclosing(SettingsKnowledge(config)) as knowledge:
                return all([await _add(path, dataset, embedding, prune, parallel, config, knowledge) for path in paths])
        except ServiceError as error:
            advice = "Everything added so far is stored; run the same command again to continue."
            raise ServiceError(f"{error}\n{advice}") from error

    raise typer.Exit(0 if asyncio.run(add_all()) else 1)


async def _add(
    path: Path, name: str, embedding: str, prune: bool, parallel: int, settings: Settings, knowledge: SettingsKnowledge
) -> bool:
    """Add one file or folder; return whether all of its files could be read."""
    from ragflow_lg.adapters.knowledge.indexing import Indexer
    from ragflow_lg.adapters.knowledge.source_files import (
        list_source_files,
        list_unsupported_files,
        resolve_source_name,
    )

    files, root = list(list_source_files(path)), Path(resolve_source_name(path))
    default_name = root.parent.name if [file.path for file in files] == [path] else root.name
    database = knowledge.embedded().database
    dataset, embedder, is_new = _open_dataset(knowledge, name or default_name or "files", embedding)
    section = settings.embeddings.get(embedder.name)
    batch = section.batch if section else _BATCH
    try:
        with _progress_bar(dataset.name) as show:
            indexer = Indexer(database, dataset, embedder, batch=batch, parallel=parallel, on_progress=show)
            report = await indexer.add(files, str(root))
    finally:
        if is_new:
            _delete_if_empty(knowledge, dataset)
    if prune and report.missing:
        _prune(knowledge, dataset, report.missing)
    if others := list(list_unsupported_files(path)):
        more = f" and {len(others) - _MAX_NAMES:,} more" if len(others) > _MAX_NAMES else ""
        print_note(f"· {', '.join(others[:_MAX_NAMES])}{more}: skipped, this file type is not supported.")
    _print_report(report, dataset, embedder, prune=prune)
    if not files:
        print_line(f"{path} contains no supported file.")
    _warn_about_size(knowledge, dataset)
    return not report.failed


def _open_dataset(knowledge: SettingsKnowledge, name: str, embedding: str) -> tuple[DatasetRecord, Embedder, bool]:
    """Return the dataset, created if it is missing, its embedding model, and whether it is new."""
    from ragflow_lg.adapters.knowledge.knowledge_records import add_dataset, find_dataset
    from ragflow_lg.base.errors import SettingsError

    embedders: ConfiguredEmbedders = knowledge.embedders()
    model = embedding or embedders.default
    embedders.embedder(model)
    with knowledge.embedded().database.writing() as connection:
        known = find_dataset(connection, name)
        dataset = known or add_dataset(connection, name, model)
    if embedding and dataset.embedding_model != embedding:
        raise SettingsError(
            f"The dataset {name!r} was created with the embedding model {dataset.embedding_model!r}, and vectors of "
            "two models cannot be compared. Leave out --embedding, or choose another name with --dataset."
        )
    return dataset, embedders.embedder(dataset.embedding_model), known is None


def _delete_if_empty(knowledge: SettingsKnowledge, dataset: DatasetRecord) -> None:
    """Delete a new dataset to which no file could be added, for example because an extra is missing."""
    from ragflow_lg.adapters.knowledge.knowledge_records import delete_dataset, find_dataset

    with knowledge.embedded().database.writing() as connection:
        record = find_dataset(connection, dataset.id)
        if record is not None and not record.documents:
            delete_dataset(connection, record.number)


def _prune(knowledge: SettingsKnowledge, dataset: DatasetRecord, names: list[str]) -> None:
    from ragflow_lg.adapters.knowledge.knowledge_records import delete_document, list_documents

    with knowledge.embedded().database.writing() as connection:
        for document in list_documents(connection, dataset.number):
            if document.name in names:
                delete_document(connection, dataset.number, document.number)


def _warn_about_size(knowledge: SettingsKnowledge, dataset: DatasetRecord) -> None:
    from ragflow_lg.adapters.knowledge.indexing import MAX_CHUNKS
    from ragflow_lg.adapters.knowledge.knowledge_records import find_dataset

    with knowledge.embedded().database.reading() as connection:
        record = find_dataset(connection, dataset.id)
    if record is not None and record.chunks > MAX_CHUNKS:
        size_gb = record.chunks * record.dims * 4 / 1e9
        print_note(
            f"{record.name} now has {record.chunks:,} chunks. Above {MAX_CHUNKS:,} use a server: every search scans "
            f"{size_gb:.1f} GB of vectors in memory. See docs/knowledge.md."
        )


def _print_report(report: AddedFiles, dataset: DatasetRecord, embedder: Embedder, *, prune: bool) -> None:
    for name, reason in report.failed.items():
        print_note(f"✗ {name}: {reason}.")
    for name, first in report.duplicates.items():
        print_note(f"= {name}: skipped, same content as {first}.")
    for name in report.missing:
        print_note(f"- {name}: its file no longer exists; {'deleted.' if prune else 'delete it with --prune.'}")
    counts = ((report.added, "added"), (report.changed, "changed"), (report.unchanged, "unchanged"))
    parts = [f"{len(names)} {state}" for names, state in counts]
    parts += [f"{len(report.failed)} failed"] if report.failed else []
    parts += [count_of(len(report.duplicates), "duplicate")] if report.duplicates else []
    print_line(f"{dataset.name}: {', '.join(parts)}; {count_of(report.chunks, 'new chunk')}")
    if embedder.is_stand_in:
        print_note(f'Vectors: {embedder.name}. For semantic search set [embeddings."ID"] (docs/knowledge.md).')


@contextmanager
def _progress_bar(name: str) -> Generator[Callable[[Progress], None]]:
    """Yield a function that shows a progress bar if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),  # names must not be treated as format strings
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
