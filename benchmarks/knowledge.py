"""How well and how fast the embedded knowledge base searches: ``python -m benchmarks.knowledge``.

Quality: known-item questions over generated chunks, hit@5 and mean reciprocal rank. Speed: chunks a second, latency of
a hybrid search, memory; each size in a process of its own.
"""

from __future__ import annotations

import asyncio
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.knowledge_questions import Question, made_chunks, made_questions
from ragflow_lg.adapters.knowledge.embedded_knowledge import EmbeddedKnowledge, Fusion
from ragflow_lg.adapters.knowledge.hash_embedder import STAND_IN, HashingEmbedder
from ragflow_lg.adapters.knowledge.knowledge_records import NewChunk, add_chunks, add_dataset, open_document, set_dims
from ragflow_lg.services.knowledge import Dataset, DatasetSearch

CHUNKS, QUESTIONS = 4000, 400
BATCH = 256
SIZES = (10_000, 200_000)
SPEED_QUESTIONS = 200


class PlainHashing(HashingEmbedder):
    """The stand-in without the rule that it never searches alone, to see what it is worth."""

    is_stand_in = False


class OneEmbedder:
    """`ragflow_lg.services.knowledge.Embedders` of one."""

    def embedder(self, embedding_model: str) -> HashingEmbedder:
        """Give it."""
        del embedding_model
        return PlainHashing()


def filled(
    path: Path, texts: Sequence[str], fusion: Fusion = "weighted"
) -> tuple[EmbeddedKnowledge, Mapping[str, int]]:
    """Make a knowledge base of texts; give it with the number of each text by its content."""
    knowledge, embedder = EmbeddedKnowledge(path, OneEmbedder(), fusion=fusion), HashingEmbedder()
    with knowledge.database.writing() as connection:
        dataset = add_dataset(connection, "bench", STAND_IN)
        set_dims(connection, dataset.number, 384)
    for at in range(0, len(texts), BATCH):
        some = texts[at : at + BATCH]
        vectors = embedder.vectors(some)
        with knowledge.database.writing() as connection:
            number = open_document(connection, dataset, f"part {at}", "", str(at), "{}", len(some))
            rows = [NewChunk(i, text, [], vectors[i].astype("<f4").tobytes()) for i, text in enumerate(some)]
            add_chunks(connection, dataset, number, f"part {at}", rows)
    return knowledge, {text: number for number, text in enumerate(texts)}


async def places(
    knowledge: EmbeddedKnowledge, numbers: Mapping[str, int], questions: Sequence[Question], weight: float
) -> list[int]:
    """Give at which place each answer was found, from 1; 0 for those that were not among the first 10."""
    (dataset,) = (await knowledge.datasets(["bench"])).values()
    found: list[int] = []
    for question in questions:
        search = DatasetSearch(
            question.text, (dataset,), top_n=10, similarity_threshold=0.0, keywords_similarity_weight=weight
        )
        chunks = (await knowledge.search(search)).chunks
        ranked = [numbers[str(chunk["content_with_weight"])] for chunk in chunks]
        found.append(ranked.index(question.chunk) + 1 if question.chunk in ranked else 0)
    return found


def quality() -> None:
    """Print hit@5 and MRR of each way to search."""
    print(f"{QUESTIONS} questions over {CHUNKS} chunks, vectors of the hashing stand-in")
    print(f"{'':<32} {'English hit@5':>14} {'MRR@10':>7} {'Chinese hit@5':>14} {'MRR@10':>7}")
    texts, questions = made_chunks(CHUNKS), made_questions(CHUNKS, QUESTIONS)
    ways: tuple[tuple[str, Fusion, float], ...] = (
        ("words alone", "weighted", 1.0),
        ("vectors alone", "weighted", 0.0),
        ("RRF (k=60)", "rrf", 0.5),
        ("weighted sum, keywords 0.5", "weighted", 0.5),
        ("weighted sum, keywords 0.7", "weighted", 0.7),
    )
    for name, fusion, weight in ways:
        with tempfile.TemporaryDirectory() as folder:
            knowledge, numbers = filled(Path(folder) / "k.db", texts, fusion)
            told = ""
            for language in ("English", "Chinese"):
                some = [question for question in questions if question.language == language]
                found = asyncio.run(places(knowledge, numbers, some, weight))
                hits = sum(0 < place <= 5 for place in found)
                ranks = statistics.mean(1 / place if place else 0.0 for place in found)
                told += f" {f'{hits}/{len(some)}':>14} {ranks:>7.3f}"
            knowledge.close()
        print(f"{name:<32}{told}")


def speed(size: int) -> None:
    """Print the figures of one size."""
    base = made_chunks(20_000)
    random_ = random.Random(size)
    random_.shuffle(base)
    texts = [f"{base[i % len(base)]} {random_.randrange(10**9)}" for i in range(size)]
    questions = made_questions(20_000, SPEED_QUESTIONS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "k.db"
        began = time.perf_counter()
        knowledge, _ = filled(path, texts)
        took_s = time.perf_counter() - began
        del texts, base
        before = _resident_mb()
        (dataset,) = asyncio.run(knowledge.datasets(["bench"])).values()
        times = asyncio.run(_latencies(knowledge, dataset, questions))
        first, rest = times[0] * 1000, sorted(1000 * took for took in times[1:])
        searching_mb = _resident_mb() - before
        highest_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{size:,} chunks: indexed {size / took_s:,.0f} a second, file of {path.stat().st_size / 1e6:,.0f} MB")
        print(f"  first search {first:.0f} ms, then p50 {statistics.median(rest):.1f} ms, p99 {_p99(rest):.1f} ms")
        print(f"  memory: searching takes {searching_mb:,.0f} MB, the highest of all {highest_mb:,.0f} MB")
        knowledge.close()


async def _latencies(knowledge: EmbeddedKnowledge, dataset: Dataset, questions: Sequence[Question]) -> list[float]:
    times: list[float] = []
    for question in questions:
        began = time.perf_counter()
        found = await knowledge.search(DatasetSearch(question.text, (dataset,)))
        times.append(time.perf_counter() - began)
        assert found.chunks
    return times


def _p99(ordered: Sequence[float]) -> float:
    return ordered[int(len(ordered) * 0.99)]


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * resource.getpagesize() / 1024**2


def main() -> None:
    """Print all, or one size: ``python -m benchmarks.knowledge 10000``."""
    if len(sys.argv) > 1:
        speed(int(sys.argv[1]))
        return
    quality()
    for size in SIZES:
        subprocess.run([sys.executable, "-m", "benchmarks.knowledge", str(size)], check=True)


if __name__ == "__main__":
    main()
