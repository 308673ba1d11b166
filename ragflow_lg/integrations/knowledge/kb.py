"""``ragflow-lg kb``: the datasets of the embedded knowledge base."""

from __future__ import annotations

import json
import sys
from contextlib import aclosing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.base.extras import install_command
from ragflow_lg.base.local_paths import suggest_file
from ragflow_lg.server.cli.command_line import make_group
from ragflow_lg.server.cli.options import KeywordsWeight, Output, SettingsFile, Threshold
from ragflow_lg.server.cli.terminal import count_of, one_line, print_line, print_note

if TYPE_CHECKING:
    from ragflow_lg.integrations.knowledge.indexing import AddedFiles
    from ragflow_lg.integrations.knowledge.knowledge_file import DatasetRecord, KnowledgeFile
    from ragflow_lg.integrations.knowledge.knowledge_sources import SettingsKnowledge
    from ragflow_lg.services.knowledge import Embedder, SearchResult

_MAX_NAMES = 3
"""Maximum number of skipped files to name."""

_MAX_CHARS = 300

DatasetName = Annotated[str, typer.Argument(help="Name or id of the dataset.", metavar="DATASET")]

kb = make_group("Manage datasets of the embedded knowledge base.")


def _knowledge(settings: Path | None) -> SettingsKnowledge:
    from ragflow_lg.integrations.knowledge.knowledge_sources import SettingsKnowledge
    from ragflow_lg.server.settings import load_settings

    return SettingsKnowledge(load_settings(settings))


def _get_dataset(file: KnowledgeFile, name_or_id: str) -> DatasetRecord:
    if (dataset := file.find_dataset(name_or_id)) is None:
        raise _no_dataset(name_or_id)
    return dataset


def _no_dataset(name_or_id: str) -> SettingsError:
    return SettingsError(f"There is no dataset {name_or_id!r}; `ragflow-lg kb list` lists all datasets.")


@kb.command(no_args_is_help=True)
def create(
    name: Annotated[str, typer.Argument(help="Name; canvases can use it in place of the id.", metavar="NAME")],
    id_: Annotated[str, typer.Option("--id", help="Id of the dataset in RAGFlow's canvases. Default: a new one.")] = "",
    embedding: Annotated[
        str, typer.Option("--embedding", help='ID of [embeddings."ID"]. Default: from the settings.', metavar="ID")
    ] = "",
    chunk_tokens: Annotated[int, typer.Option(help="Maximum length of a chunk, in tokens.", min=16, max=8192)] = 256,
    overlap_tokens: Annotated[
        int, typer.Option(help="Tokens of a chunk that are repeated in the next one.", min=0, max=2048)
    ] = 32,
    settings: SettingsFile = None,
) -> None:
    """Create an empty dataset. Not needed if you use the defaults: `kb add` creates missing datasets.

    Example: ragflow-lg kb create handbook --embedding bge-m3@SILICONFLOW --chunk-tokens 512
    """
    from ragflow_lg.integrations.knowledge.knowledge_file import add_dataset, find_dataset

    if not name.strip():
        raise typer.BadParameter("A dataset needs a name.")
    knowledge = _knowledge(settings)
    model = embedding or knowledge.models.embedders.default
    knowledge.models.embedders.embedder(model)
    with knowledge.embedded().file.writing() as connection:
        for key in filter(None, (name, id_)):
            if find_dataset(connection, key) is not None:
                raise SettingsError(f"The dataset {key!r} already exists; `ragflow-lg kb list` lists all datasets.")
        sizes = {"chunk_tokens": chunk_tokens, "overlap_tokens": min(overlap_tokens, chunk_tokens // 2)}
        dataset = add_dataset(connection, name, model, id_=id_, **sizes)
    print_line(f"{dataset.name}  {dataset.id}  {dataset.embedding_model}")


@kb.command(no_args_is_help=True)
def add(
    paths: Annotated[list[Path], typer.Argument(help="Files and folders.", metavar="PATH...")],
    dataset: Annotated[
        str,
        typer.Option(
            "--dataset", "-d", help="Name or id of the dataset. Default: the folder's name.", metavar="DATASET"
        ),
    ] = "",
    embedding: Annotated[
        str, typer.Option("--embedding", help='ID of [embeddings."ID"] for a new dataset.', metavar="ID")
    ] = "",
    prune: Annotated[bool, typer.Option("--prune", help="Delete documents whose files no longer exist.")] = False,
    parallel: Annotated[int, typer.Option(help="Files that are embedded at the same time.", min=1, max=64)] = 4,
    settings: SettingsFile = None,
) -> None:
    """Add txt, md, html, csv, json, docx, pdf, pptx and xlsx files to a dataset, which is created if missing.

    Only new and changed files are read. After an interruption, run the same command again: it continues.

    Exit code 0: all files were added. 1: some files could not be read.

    Examples:
    ragflow-lg kb add examples/handbook

    ragflow-lg kb add reports/2026.pdf --dataset reports
    """
    import asyncio

    for path in paths:
        if not path.exists():
            raise SettingsError(f"The file or folder {str(path)!r} does not exist.{suggest_file(path)}")

    async def add_all() -> bool:
        try:
            async with aclosing(_knowledge(settings)) as knowledge:
                return all([await _add(path, dataset, embedding, prune, parallel, knowledge) for path in paths])
        except ServiceError as error:
            advice = "Everything added so far is stored; run the same command again to continue."
            raise ServiceError(f"{error}\n{advice}") from error

    raise typer.Exit(0 if asyncio.run(add_all()) else 1)


async def _add(path: Path, name: str, embedding: str, prune: bool, parallel: int, knowledge: SettingsKnowledge) -> bool:
    """Add one file or folder; return whether all of its files could be read."""
    from rich.console import Console
    from rich.progress import Progress

    from ragflow_lg.integrations.knowledge.indexing import MAX_CHUNKS, Indexer, SourceFile, list_source_files
    from ragflow_lg.integrations.knowledge.knowledge_file import delete_dataset, delete_document, find_dataset

    listed = list_source_files(path)
    files, others = [f for f in listed if f.is_supported], [f.name for f in listed if not f.is_supported]
    root = Path(SourceFile(path, "").source)
    default_name = root.parent.name if [each.path for each in listed] == [path] else root.name
    file = knowledge.embedded().file
    dataset, embedder, is_new = _open_dataset(knowledge, name or default_name or "files", embedding)
    try:
        with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
            task = bar.add_task("files")

            def show(done: int, all_files: int) -> None:
                bar.update(task, completed=done, total=all_files)

            report = await Indexer(file, dataset, embedder, parallel=parallel, on_progress=show).add(files, str(root))
    finally:
        with file.writing() as connection:
            record = find_dataset(connection, dataset.id)
            if is_new and record is not None and not record.documents:  # for example because an extra is missing
                delete_dataset(connection, record.number)
    with file.writing() as connection:
        for document in report.missing if prune else ():
            delete_document(connection, dataset.number, document)
        record = find_dataset(connection, dataset.id)
    if others:
        more = f" and {len(others) - _MAX_NAMES:,} more" if len(others) > _MAX_NAMES else ""
        print_note(f"· {', '.join(others[:_MAX_NAMES])}{more}: skipped, this file type is not supported.")
    _print_report(report, dataset, embedder, prune=prune)
    if not files:
        print_line(f"{path} contains no supported file.")
    if record is not None and record.chunks > MAX_CHUNKS:
        print_note(f"{record.name} now has {record.chunks:,} chunks. Use a server for this size (knowledge.md).")
    return not report.failed


def _open_dataset(knowledge: SettingsKnowledge, name: str, embedding: str) -> tuple[DatasetRecord, Embedder, bool]:
    """Return the dataset, created if it is missing, its embedding model, and whether it is new."""
    from ragflow_lg.integrations.knowledge.knowledge_file import add_dataset, find_dataset

    embedders = knowledge.models.embedders
    model = embedding or embedders.default
    embedders.embedder(model)
    with knowledge.embedded().file.writing() as connection:
        known = find_dataset(connection, name)
        dataset = known or add_dataset(connection, name, model)
    if embedding and dataset.embedding_model != embedding:
        raise SettingsError(
            f"The dataset {name!r} was created with the embedding model {dataset.embedding_model!r}, and vectors of "
            "two models cannot be compared. Leave out --embedding, or choose another name with --dataset."
        )
    return dataset, embedders.embedder(dataset.embedding_model), known is None


def _print_report(report: AddedFiles, dataset: DatasetRecord, embedder: Embedder, *, prune: bool) -> None:
    from ragflow_lg.adapters.knowledge.embedders import KEYWORDS

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
    if embedder.vector_model == KEYWORDS:
        print_note(f"Only keywords are searched. For meanings: {install_command('local-embeddings')} (knowledge.md).")


@kb.command(no_args_is_help=True)
def search(
    dataset: DatasetName,
    question: Annotated[str, typer.Argument(help="The question or keywords.", metavar="QUESTION")],
    top_n: Annotated[int, typer.Option("--top-n", "-n", help="Number of chunks to show.", min=1, max=1000)] = 5,
    threshold: Threshold = 0.2,
    keywords_weight: KeywordsWeight = 0.5,
    as_json: Annotated[bool, typer.Option("--json", help="Print each chunk as a JSON object.")] = False,
    settings: SettingsFile = None,
) -> None:
    """Search a dataset as the Retrieval component does.

    Each result shows its similarity (overall, keyword and vector), document, lines and text.

    Example: ragflow-lg kb search handbook "How many days of vacation are there?"
    """
    import asyncio

    from ragflow_lg.services.knowledge import DatasetSearch

    async def find() -> SearchResult:
        async with aclosing(_knowledge(settings)) as knowledge:
            info = (await knowledge.datasets([dataset])).get(dataset)
            if info is None:
                raise _no_dataset(dataset)
            options: dict[str, Any] = {"similarity_threshold": threshold, "keywords_similarity_weight": keywords_weight}
            return await knowledge.search(DatasetSearch(question, (info,), top_n=top_n, **options))

    chunks = asyncio.run(find()).chunks
    for rank, chunk in enumerate(chunks, 1):
        if as_json:
            sys.stdout.write(json.dumps(chunk, ensure_ascii=False) + "\n")
        else:
            _print_chunk(rank, cast("dict[str, Any]", chunk))
    if not chunks and not as_json:
        print_line("No chunks match the question.")


def _print_chunk(rank: int, chunk: dict[str, Any]) -> None:
    scores = (
        f"{chunk['similarity']:.3f} (words {chunk['term_similarity']:.3f}, vectors {chunk['vector_similarity']:.3f})"
    )
    position = next(iter(chunk.get("positions") or []), None)
    page = f", page {position[0]}" if position and position[0] else ""
    lines = f"{page}, lines {position[3]}-{position[4]}" if position and len(position) > 4 else ""
    print_line(f"{rank}. {scores}  {chunk['docnm_kwd']}{lines}")
    print_line(f"   {one_line(chunk['content_with_weight'], _MAX_CHARS)}")


@kb.command("list")
def list_(
    dataset: Annotated[str, typer.Argument(help="List the documents of this dataset.", metavar="[DATASET]")] = "",
    settings: SettingsFile = None,
) -> None:
    """List datasets with their documents, chunks, embedding model and id, or list one dataset's documents.

    Example: ragflow-lg kb list handbook
    """
    from ragflow_lg.integrations.knowledge.knowledge_file import list_datasets, list_documents

    file = _knowledge(settings).embedded().file
    if dataset:
        number = _get_dataset(file, dataset).number
        with file.reading() as connection:
            documents = list_documents(connection, number)
        for document in documents:
            print_line(f"{document.name}  {count_of(document.chunks, 'chunk')}  {document.id}")
        return
    datasets: list[DatasetRecord] = []
    if file.exists:
        with file.reading() as connection:
            datasets = list_datasets(connection)
    for record in datasets:
        size = f"{count_of(record.documents, 'document')}  {count_of(record.chunks, 'chunk')}"
        print_line(f"{record.name}  {size}  {record.embedding_model}  {record.id}")
    if not datasets:
        print_line(f"There are no datasets in {file.path}; `ragflow-lg kb add FOLDER` creates one.")


@kb.command(no_args_is_help=True)
def export(dataset: DatasetName, output: Output = None, settings: SettingsFile = None) -> None:
    """Write all chunks in a dataset as JSON Lines: id, content, positions, document and metadata.

    Example: ragflow-lg kb export handbook -o handbook.jsonl
    """
    from ragflow_lg.integrations.knowledge.knowledge_file import list_documents, read_chunks

    file, count = _knowledge(settings).embedded().file, 0
    record = _get_dataset(file, dataset)
    try:
        with file.reading() as connection:
            metadata = {document.id: document.metadata for document in list_documents(connection, record.number)}
            with output.open("w", encoding="utf-8") if output is not None else nullcontext(sys.stdout) as target:
                where = "datasets.number = ? ORDER BY documents.name, chunks.number"
                for chunk in read_chunks(connection, where, record.number):
                    line = {
                        "id": chunk.id,
                        "content": chunk.content,
                        "positions": chunk.positions,
                        "document_id": chunk.document_id,
                        "document_name": chunk.document_name,
                        "metadata": metadata[chunk.document_id],
                        "dataset": record.name,
                    }
                    target.write(json.dumps(line, ensure_ascii=False) + "\n")
                    count += 1
    except BrokenPipeError:
        raise  # `main` exits silently
    except OSError as error:
        raise SettingsError(f"{output or 'Standard output'} cannot be written: {error.strerror}.") from None
    if output is not None:
        print_note(f"{count_of(count, 'chunk')} of {record.name} written to {output}")


@kb.command(no_args_is_help=True)
def delete(
    dataset: DatasetName,
    document: Annotated[
        list[str] | None, typer.Option("--document", help="Delete only this document. Repeatable.", metavar="NAME")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    settings: SettingsFile = None,
) -> None:
    """Delete a dataset, or some of its documents. Source files are not deleted.

    Example: ragflow-lg kb delete handbook --document old/travel.md
    """
    from ragflow_lg.integrations.knowledge.knowledge_file import delete_dataset, delete_document, list_documents

    file = _knowledge(settings).embedded().file
    record = _get_dataset(file, dataset)
    with file.reading() as connection:
        known = {each.name for each in list_documents(connection, record.number)}
    if not document and not yes:
        typer.confirm(f"Delete {record.name} with {count_of(record.documents, 'document')}?", abort=True, err=True)
    if missing := [name for name in document or () if name not in known]:
        raise SettingsError(
            f"The dataset {record.name!r} has no document {missing[0]!r}; "
            f"`ragflow-lg kb list {record.name}` lists its documents."
        )
    with file.writing() as connection:
        if not document:
            delete_dataset(connection, record.number)
        for name in dict.fromkeys(document or ()):
            delete_document(connection, record.number, name)
    for name in document or [record.name]:
        print_line(f"deleted {name}")
