"""``ragflow-lg kb search`` and ``kb export``: reading a dataset."""

from __future__ import annotations

import json
import sys
from contextlib import aclosing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.cli.options import KeywordsWeight, Output, SettingsFile, Threshold
from ragflow_lg.server.cli.terminal import count_of, one_line, print_line, print_note

if TYPE_CHECKING:
    from ragflow_lg.adapters.knowledge.knowledge_database import KnowledgeDatabase
    from ragflow_lg.adapters.knowledge.knowledge_records import DatasetRecord
    from ragflow_lg.services.knowledge import SearchResult


def knowledge_database(settings: Path | None) -> KnowledgeDatabase:
    """Return the database of the embedded knowledge base.

    Raises:
        SettingsError: If the settings specify a server instead.
    """
    from ragflow_lg.server.assembly.knowledge_sources import SettingsKnowledge
    from ragflow_lg.server.settings import load_settings

    return SettingsKnowledge(load_settings(settings)).embedded().database


def get_dataset(database: KnowledgeDatabase, name_or_id: str) -> DatasetRecord:
    """Return a dataset.

    Raises:
        SettingsError: If it does not exist.
    """
    from ragflow_lg.adapters.knowledge.knowledge_records import find_dataset

    dataset = None
    if database.exists:
        with database.reading() as connection:
            dataset = find_dataset(connection, name_or_id)
    if dataset is None:
        raise no_dataset(name_or_id)
    return dataset


def no_dataset(name_or_id: str) -> SettingsError:
    """Return the error for a dataset that does not exist."""
    return SettingsError(f"There is no dataset {name_or_id!r}; `ragflow-lg kb list` lists all datasets.")


_MAX_CHARS = 300


def search(
    dataset: Annotated[str, typer.Argument(help="Name or id of the dataset.", metavar="DATASET")],
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

    from ragflow_lg.server.assembly.knowledge_sources import SettingsKnowledge
    from ragflow_lg.server.settings import load_settings
    from ragflow_lg.services.knowledge import DatasetSearch

    async def find() -> SearchResult:
        async with aclosing(SettingsKnowledge(load_settings(settings))) as knowledge:
            info = (await knowledge.datasets([dataset])).get(dataset)
            if info is None:
                raise no_dataset(dataset)
            request = DatasetSearch(
                question,
                (info,),
                top_n=top_n,
                similarity_threshold=threshold,
                keywords_similarity_weight=keywords_weight,
            )
            return await knowledge.search(request)

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


def export(
    dataset: Annotated[str, typer.Argument(help="Name or id of the dataset.", metavar="DATASET")],
    output: Output = None,
    settings: SettingsFile = None,
) -> None:
    """Write all chunks in a dataset as JSON Lines: id, content, positions, document and metadata.

    Example: ragflow-lg kb export handbook -o handbook.jsonl
    """
    from ragflow_lg.adapters.knowledge.knowledge_records import iterate_chunks, list_documents

    database = knowledge_database(settings)
    record = get_dataset(database, dataset)
    try:
        target = output.open("w", encoding="utf-8") if output is not None else sys.stdout
    except OSError as error:
        raise SettingsError(f"{output} cannot be written: {error.strerror}.") from None
    count = 0
    try:
        with target if output is not None else nullcontext(), database.reading() as connection:
            metadata = {document.id: document.metadata for document in list_documents(connection, record.number)}
            for chunk in iterate_chunks(connection, record.number):
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
