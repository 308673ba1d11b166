"""``ragflow-lg kb search`` and ``kb export``: what is in a dataset."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.cli.kb_database import tell, the_database, the_dataset
from ragflow_lg.server.cli.options import SettingsFile
from ragflow_lg.server.cli.terminal import counted, printable

if TYPE_CHECKING:
    from ragflow_lg.services.knowledge import SearchResult

__all__ = ["export", "search"]

_SHOWN_CHARS = 300


def search(
    dataset: Annotated[str, typer.Argument(help="Name or id of the dataset.", metavar="DATASET")],
    question: Annotated[str, typer.Argument(help="What to look for.", metavar="QUESTION")],
    top_n: Annotated[int, typer.Option("--top-n", "-n", help="How many chunks to show.", min=1, max=1000)] = 5,
    threshold: Annotated[float, typer.Option(help="Lowest similarity.", min=0, max=1)] = 0.2,
    keywords_weight: Annotated[
        float, typer.Option(help="What words count; the vectors count the rest.", min=0, max=1)
    ] = 0.5,
    as_json: Annotated[bool, typer.Option("--json", help="Write a JSON object a chunk.")] = False,
    settings: SettingsFile = None,
) -> None:
    """Search a dataset as a Retrieval does: similarity, that of words and of vectors, document, lines, text.

    Example: ragflow-lg kb search handbook "How many days of vacation are there?"
    """
    import asyncio

    from ragflow_lg.server.assembly.knowledge_sources import SettingsKnowledge
    from ragflow_lg.server.settings import load_settings
    from ragflow_lg.services.knowledge import DatasetSearch

    async def look() -> SearchResult:
        knowledge = SettingsKnowledge(load_settings(settings))
        try:
            found = (await knowledge.datasets([dataset])).get(dataset)
            if found is None:
                raise SettingsError(f"There is no dataset {dataset!r}; `ragflow-lg kb list` shows what there is.")
            wanted = DatasetSearch(
                question,
                (found,),
                top_n=top_n,
                similarity_threshold=threshold,
                keywords_similarity_weight=keywords_weight,
            )
            return await knowledge.search(wanted)
        finally:
            await knowledge.aclose()

    found = asyncio.run(look())
    for rank, chunk in enumerate(found.chunks, 1):
        if as_json:
            sys.stdout.write(json.dumps(chunk, ensure_ascii=False) + "\n")
        else:
            _show(rank, cast("dict[str, Any]", chunk))
    if not found.chunks and not as_json:
        tell("Nothing was found.")


def _show(rank: int, chunk: dict[str, Any]) -> None:
    scores = (
        f"{chunk['similarity']:.3f} (words {chunk['term_similarity']:.3f}, vectors {chunk['vector_similarity']:.3f})"
    )
    position = next(iter(chunk.get("positions") or []), None)
    page = f", page {position[0]}" if position and position[0] else ""
    lines = f"{page}, lines {position[3]}-{position[4]}" if position and len(position) > 4 else ""
    tell(f"{rank}. {scores}  {chunk['docnm_kwd']}{lines}")
    text = " ".join(str(chunk["content_with_weight"]).split())
    tell(f"   {text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 1] + '…'}")


def export(
    dataset: Annotated[str, typer.Argument(help="Name or id of the dataset.", metavar="DATASET")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Default: standard output.")] = None,
    settings: SettingsFile = None,
) -> None:
    """Write all chunks of a dataset, a JSON object a line: id, content, positions, document, metadata.

    Example: ragflow-lg kb export handbook -o handbook.jsonl
    """
    from ragflow_lg.adapters.knowledge.knowledge_records import all_chunks, documents_of

    database = the_database(settings)
    found = the_dataset(database, dataset)
    try:
        target = output.open("w", encoding="utf-8") if output is not None else sys.stdout
    except OSError as error:
        raise SettingsError(f"{output} cannot be written: {error.strerror}.") from None
    count = 0
    try:
        with target if output is not None else nullcontext(), database.reading() as connection:
            metadata = {document.id: document.metadata for document in documents_of(connection, found.number)}
            for chunk in all_chunks(connection, found.number):
                line = {
                    "id": chunk.id,
                    "content": chunk.content,
                    "positions": chunk.positions,
                    "document_id": chunk.document_id,
                    "document_name": chunk.document_name,
                    "metadata": metadata[chunk.document_id],
                    "dataset": found.name,
                }
                target.write(json.dumps(line, ensure_ascii=False) + "\n")
                count += 1
    except BrokenPipeError:
        raise  # the reader has seen enough
    except OSError as error:
        raise SettingsError(f"{output or 'Standard output'} cannot be written: {error.strerror}.") from None
    if output is not None:
        sys.stderr.write(printable(f"{counted(count, 'chunk')} of {found.name} are in {output}\n"))
