"""Quality and speed of embedded knowledge base searches: ``python -m benchmarks.knowledge``.

Quality: known-item questions over generated chunks, as hit@5 and mean reciprocal rank. Speed: indexed chunks per
second, hybrid search latency, and memory; each size is measured in a separate process.
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

from benchmarks.knowledge_questions import Question, generate_chunks, generate_questions
from ragflow_lg.adapters.knowledge.embedded_knowledge import EmbeddedKnowledge, Fusion
from ragflow_lg.adapters.knowledge.endpoint_embedder import HASHING_MODEL, HashingEmbedder
from ragflow_lg.adapters.knowledge.knowledge_records import NewChunk, add_chunks, add_dataset, open_document, set_dims
from ragflow_lg.services.knowledge import Dataset, DatasetSearch

CHUNKS, QUESTIONS = 4000, 400
BATCH = 256
SIZES = (10_000, 200_000)
SPEED_QUESTIONS = 200


class PlainHashing(HashingEmbedder):
    """The hashing embedder without the rule that its vectors never decide alone, to measure how useful they are."""

    is_stand_in = False


class OneEmbedder:
    """`ragflow_lg.services.knowledge.Embedders` with one embedder."""

    def embedder(self, embedding_model: str) -> HashingEmbedder:
        """Return the embedder for every model."""
        del embedding_model
        return PlainHashing()


def fill(path: Path, texts: Sequence[str], fusion: Fusion = "weighted") -> tuple[EmbeddedKnowledge, Mapping[str, int]]:
    """Create a knowledge base from texts; return it and a mapping from each text's content to its number."""
    knowledge, embedder = EmbeddedKnowledge(path, OneEmbedder(), fusion=fusion), HashingEmbedder()
    with knowledge.database.writing() as connection:
        dataset = add_dataset(connection, "bench", HASHING_MODEL)
        set_dims(connection, dataset.number, 384)
    for at in range(0, len(texts), BATCH):
        part = texts[at : at + BATCH]
        vectors = embedder.vectors(part)
        with knowledge.database.writing() as connection:
            number = open_document(connection, dataset, f"part {at}", "", str(at), "{}", len(part))
            rows = [NewChunk(i, text, [], vectors[i].astype("<f4").tobytes()) for i, text in enumerate(part)]
            add_chunks(connection, dataset, number, f"part {at}", rows)
    return knowledge, {text: number for number, text in enumerate(texts)}


async def answer_ranks(
    knowledge: EmbeddedKnowledge, numbers: Mapping[str, int], questions: Sequence[Question], weight: float
) -> list[int]:
    """Return the rank of each answer, starting at 1; 0 for answers that are not in the first 10 results."""
    (dataset,) = (await knowledge.datasets(["bench"])).values()
    ranks: list[int] = []
    for question in questions:
        search = DatasetSearch(
            question.text, (dataset,), top_n=10, similarity_threshold=0.0, keywords_similarity_weight=weight
        )
        chunks = (await knowledge.search(search)).chunks
        results = [numbers[str(chunk["content_with_weight"])] for chunk in chunks]
        ranks.append(results.index(question.chunk) + 1 if question.chunk in results else 0)
    return ranks


def quality() -> None:
    """Print hit@5 and MRR of each kind of search."""
    print(f"{QUESTIONS} questions over {CHUNKS} chunks, vectors of the hashing stand-in")
    print(f"{'':<32} {'English hit@5':>14} {'MRR@10':>7} {'Chinese hit@5':>14} {'MRR@10':>7}")
    texts, questions = generate_chunks(CHUNKS), generate_questions(CHUNKS, QUESTIONS)
    kinds: tuple[tuple[str, Fusion, float], ...] = (
        ("words alone", "weighted", 1.0),
        ("vectors alone", "weighted", 0.0),
        ("RRF (k=60)", "rrf", 0.5),
        ("weighted sum, keywords 0.5", "weighted", 0.5),
        ("weighted sum, keywords 0.7", "weighted", 0.7),
    )
    for name, fusion, weight in kinds:
        with tempfile.TemporaryDirectory() as folder:
            knowledge, numbers = fill(Path(folder) / "k.db", texts, fusion)
            row = ""
            for language in ("English", "Chinese"):
                part = [question for question in questions if question.language == language]
                ranks = asyncio.run(answer_ranks(knowledge, numbers, part, weight))
                hits = sum(0 < rank <= 5 for rank in ranks)
                mrr = statistics.mean(1 / rank if rank else 0.0 for rank in ranks)
                row += f" {f'{hits}/{len(part)}':>14} {mrr:>7.3f}"
            knowledge.close()
        print(f"{name:<32}{row}")


def speed(size: int) -> None:
    """Print the speed and memory use for one size."""
    base = generate_chunks(20_000)
    random_ = random.Random(size)
    random_.shuffle(base)
    texts = [f"{base[i % len(base)]} {random_.randrange(10**9)}" for i in range(size)]
    questions = generate_questions(20_000, SPEED_QUESTIONS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "k.db"
        start = time.perf_counter()
        knowledge, _ = fill(path, texts)
        elapsed_s = time.perf_counter() - start
        del texts, base
        before = _resident_mb()
        (dataset,) = asyncio.run(knowledge.datasets(["bench"])).values()
        times = asyncio.run(_latencies(knowledge, dataset, questions))
        first, rest = times[0] * 1000, sorted(1000 * time_s for time_s in times[1:])
        searching_mb = _resident_mb() - before
        highest_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{size:,} chunks: indexed {size / elapsed_s:,.0f} per second, file of {path.stat().st_size / 1e6:,.0f} MB"
        )
        print(f"  first search {first:.0f} ms, then p50 {statistics.median(rest):.1f} ms, p99 {_p99(rest):.1f} ms")
        print(f"  memory: {searching_mb:,.0f} MB for searching, {highest_mb:,.0f} MB at most")
        knowledge.close()


async def _latencies(knowledge: EmbeddedKnowledge, dataset: Dataset, questions: Sequence[Question]) -> list[float]:
    times: list[float] = []
    for question in questions:
        start = time.perf_counter()
        result = await knowledge.search(DatasetSearch(question.text, (dataset,)))
        times.append(time.perf_counter() - start)
        assert result.chunks
    return times


def _p99(ordered: Sequence[float]) -> float:
    return ordered[int(len(ordered) * 0.99)]


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * resource.getpagesize() / 1024**2


def main() -> None:
    """Print results for all sizes, or for one size: ``python -m benchmarks.knowledge 10000``."""
    if len(sys.argv) > 1:
        speed(int(sys.argv[1]))
        return
    quality()
    for size in SIZES:
        subprocess.run([sys.executable, "-m", "benchmarks.knowledge", str(size)], check=True)


if __name__ == "__main__":
    main()
