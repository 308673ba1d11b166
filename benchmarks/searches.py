"""Size of stored sessions with many Retrievals, compared with the size of the retrieved text."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from benchmarks.canvases import component, document
from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.catalog import load_catalog
from ragflow_lg.checkpoints import open_store
from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.runs.runner import Runner
from ragflow_lg.services.knowledge import Dataset, DatasetSearch, DocumentCount, Metadata, SearchResult
from ragflow_lg.services.services import Services

CHUNKS = 8


def searches(count: int) -> dict[str, Any]:
    """Return Begin, a chain of ``count`` Retrievals with different questions, and a Message."""
    ids = [f"r{number}" for number in range(count)]
    nodes = {
        id_: component("Retrieval", {"dataset_ids": ["ds"], "query": f"{{sys.query}} {id_}"}, [follower])
        for id_, follower in zip(ids, [*ids[1:], "out"], strict=True)
    }
    return document({"begin": component("Begin", {}, ids[:1]), **nodes, "out": component("Message", _MESSAGE, [])})


_MESSAGE = {"content": ["done"]}


class RandomKnowledge:
    """A knowledge base with different chunks of ``size`` characters for every question."""

    def __init__(self, size: int) -> None:
        self._size = size

    async def datasets(self, names_or_ids: Sequence[str]) -> Mapping[str, Dataset]:
        """Return a dataset for each name."""
        return {name: Dataset(name, name) for name in names_or_ids}

    async def search(self, search: DatasetSearch) -> SearchResult:
        """Return random chunks, which cannot be compressed."""
        random_ = random.Random(search.question)
        words = [f"{random_.getrandbits(32):08x}" for _ in range(self._size // 9 * CHUNKS)]
        size = len(words) // CHUNKS
        rows = [self._chunk(search.question, n, " ".join(words[n * size : (n + 1) * size])) for n in range(CHUNKS)]
        return SearchResult(tuple(rows), (DocumentCount("book.pdf", "doc", CHUNKS),), CHUNKS)

    def _chunk(self, question: str, number: int, text: str) -> dict[str, Any]:
        scores = dict.fromkeys(("similarity", "vector_similarity", "term_similarity"), 0.5)
        names = {"chunk_id": f"{question}-{number}", "doc_id": "doc", "docnm_kwd": "book.pdf", "kb_id": "ds"}
        return {**names, "content_with_weight": text, "positions": [[1, 0, 1, 0, 1]], **scores}

    async def metadata(self, datasets: Sequence[Dataset]) -> Metadata:
        """Return no metadata."""
        return {}


async def _stored_bytes(services: Services, folder: str, count: int, size: int) -> int:
    path = Path(folder) / f"{count}-{size}.db"
    services = replace(services, knowledge=RandomKnowledge(size))
    async with open_store(f"sqlite:///{path}", SystemClock()) as store:
        run = Runner(compile_canvas(searches(count), load_catalog()), services, store=store).start("s", {"query": "q"})
        async for _ in run:
            pass
        assert run.status == "succeeded", run.error
    return path.stat().st_size


async def print_searches(services: Services, show: Callable[[str], None]) -> None:
    """Print the size in SQLite in kB, and its ratio to the size of the retrieved text."""
    with tempfile.TemporaryDirectory() as folder:
        for count, size in ((10, 300), (10, 800), (10, 2000), (20, 2000), (40, 2000)):
            stored = await _stored_bytes(services, folder, count, size)
            text = count * CHUNKS * size
            name = f"{count} searches, {CHUNKS} chunks of {size:,} bytes, kB"
            show(f"{name:<40} {stored / 1000:>9.0f} {text / 1000:>12.0f} {stored / text:>7.2f}")


if __name__ == "__main__":
    from benchmarks.model_services import services_of

    asyncio.run(print_searches(services_of(), print))
