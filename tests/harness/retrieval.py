"""How well searches of the embedded knowledge base find the document that answers a question.

``python -m tests.campaigns retrieval MODEL…`` prints hit@1, hit@3, hit@5 and MRR@10 of embedding models by the weight
of keywords. ``keywords`` and ``wordllama`` need no settings; the settings describe others, for example
``RAGFLOW_LG_EMBEDDINGS='{"minilm": {"base_url": "http://127.0.0.1:8080/v1"}}'``.
"""

import asyncio
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ragflow_lg.adapters.knowledge.embedders import KEYWORDS
from ragflow_lg.integrations.knowledge.embedded_knowledge import EmbeddedKnowledge
from ragflow_lg.integrations.knowledge.indexing import Indexer, SourceFile
from ragflow_lg.integrations.knowledge.knowledge_file import add_dataset
from ragflow_lg.server.assembly.search_models import SearchModels
from ragflow_lg.server.settings import load_settings
from ragflow_lg.services.knowledge import DatasetSearch, Embedders

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures" / "retrieval"
QUESTIONS: Mapping[str, Mapping[str, str]] = tomllib.loads((FIXTURES / "questions.toml").read_text("utf-8"))
FILES = {
    "english": [*ROOT.glob("docs/*.md"), *ROOT.glob("ragflow_lg/integrations/*/*.md")],
    "chinese": [*FIXTURES.glob("chinese/*.md")],
}
WEIGHTS = (1.0, 0.7, 0.5, 0.3, 0.0)
TOP = 10


class Ranks(NamedTuple):
    """The place of the right document for each question, from 1; 0 if it is not among the first ten chunks."""

    ranks: Sequence[int]

    def hits(self, count: int) -> int:
        """Return how many questions have the right document among the first chunks."""
        return sum(0 < rank <= count for rank in self.ranks)

    @property
    def mrr(self) -> float:
        """The mean reciprocal rank."""
        return sum(1 / rank for rank in self.ranks if rank) / len(self.ranks)


async def measure(
    model: str, embedders: Embedders, weights: Sequence[float] = WEIGHTS
) -> Mapping[tuple[str, float], Ranks]:
    """Return the ranks by language and weight."""
    found: dict[tuple[str, float], Ranks] = {}
    with tempfile.TemporaryDirectory() as folder:
        knowledge = EmbeddedKnowledge(Path(folder) / "k.db", embedders)
        for language, questions in QUESTIONS.items():
            with knowledge.file.writing() as connection:
                record = add_dataset(connection, language, model)
            files = [SourceFile(path, path.name) for path in sorted(FILES[language])]
            await Indexer(knowledge.file, record, embedders.embedder(model)).add(files, str(ROOT))
            datasets = tuple((await knowledge.datasets([language])).values())
            for weight in (1.0,) if model == KEYWORDS else weights:
                ranks: list[int] = []
                for question, answer in questions.items():
                    search = DatasetSearch(question, datasets, top_n=TOP, keywords_similarity_weight=weight)
                    names = [str(chunk["docnm_kwd"]) for chunk in (await knowledge.search(search)).chunks]
                    ranks.append(names.index(answer) + 1 if answer in names else 0)
                found[language, weight] = Ranks(tuple(ranks))
    return found


async def main(*models: str) -> None:
    """Print a row for each model, language and weight."""
    search_models = SearchModels(load_settings(None))
    try:
        for model in models:
            for (language, weight), ranks in (await measure(model, search_models.embedders)).items():
                hits = "  ".join(f"hit@{count} {ranks.hits(count):>2}" for count in (1, 3, 5))
                place = f"{model:<12} {language}, {len(ranks.ranks)} questions, keywords {weight}"
                sys.stdout.write(f"{place:<56} {hits}  MRR@{TOP} {ranks.mrr:.3f}\n")
    finally:
        await search_models.aclose()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
