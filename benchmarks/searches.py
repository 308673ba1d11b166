"""What a session keeps of searches: bytes of runs with many Retrievals, beside the text that was found."""

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

__all__ = ["print_searches", "searches"]

CHUNKS = 8


def searches(count: int) -> dict[str, Any]:
    """Begin, ``count`` Retrievals one behind the other, each for a question of its own, and a Message."""
    ids = [f"r{number}" for number in range(count)]
    nodes = {
        id_: component("Retrieval", {"dataset_ids": ["ds"], "query": f"{{sys.query}} {id_}"}, [follower])
        for id_, follower in zip(ids, [*ids[1:], "out"], strict=True)
    }
    return document({"begin": component("Begin", {}, ids[:1]), **nodes, "out": component("Message", _SAID, [])})


_SAID = {"content": ["done"]}


class RandomKnowledge:
    """Finds other chunks for every question, of ``size`` characters each."""

    def __init__(self, size: int) -> None:
        self._size = size

    async def datasets(self, names_or_ids: Sequence[str]) -> Mapping[str, Dataset]:
        """Know all."""
        return {name: Dataset(name, name) for name in names_or_ids}

    async def search(self, search: DatasetSearch) -> SearchResult:
        """Give chunks that do not compress into each other."""
        drawn = random.Random(search.question)
        words = [f"{drawn.getrandbits(32):08x}" for _ in range(self._size // 9 * CHUNKS)]
        size = len(words) // CHUNKS
        rows = [self._chunk(search.question, n, " ".join(words[n * size : (n + 1) * size])) for n in range(CHUNKS)]
        return SearchResult(tuple(rows), (DocumentCount("book.pdf", "doc", CHUNKS),), CHUNKS)

    def _chunk(self, question: str, number: int, text: str) -> dict[str, Any]:
        scores = dict.fromkeys(("similarity", "vector_similarity", "term_similarity"), 0.5)
        names = {"chunk_id": f"{question}-{number}", "doc_id": "doc", "docnm_kwd": "book.pdf", "kb_id": "ds"}
        return {**names, "content_with_weight": text, "positions": [[1, 0, 1, 0, 1]], **scores}

    async def metadata(self, datasets: Sequence[Dataset]) -> Metadata:
        """Know none."""
        return {}


async def _bytes(services: Services, folder: str, count: int, size: int) -> int:
    path = Path(folder) / f"{count}-{size}.db"
    services = replace(services, knowledge=RandomKnowledge(size))
    async with open_store(f"sqlite:///{path}", SystemClock()) as store:
        run = Runner(compile_canvas(searches(count), load_catalog()), services, store=store).start("s", {"query": "q"})
        async for _ in run:
            pass
        assert run.status == "succeeded", run.error
    return path.stat().st_size


async def print_searches(services: Services, show: Callable[[str], None]) -> None:
    """Measure and print: kB in SQLite, and how many times the text that was found."""
    with tempfile.TemporaryDirectory() as folder:
        for count, size in ((10, 300), (10, 800), (10, 2000), (20, 2000), (40, 2000)):
            kept = await _bytes(services, folder, count, size)
            found = count * CHUNKS * size
            name = f"{count} searches, {CHUNKS} chunks of {size:,} bytes, kB"
            show(f"{name:<40} {kept / 1000:>9.0f} {found / 1000:>12.0f} {kept / found:>7.2f}")


if __name__ == "__main__":
    from benchmarks.model_services import services_of

    asyncio.run(print_searches(services_of(), print))
