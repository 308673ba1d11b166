"""Embedded knowledge bases with a few texts, and counting embedders."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ragflow_lg.adapters.knowledge.embedders import KEYWORDS
from ragflow_lg.adapters.knowledge.file_chunks import TextChunk
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.integrations.knowledge.embedded_knowledge import EmbeddedKnowledge
from ragflow_lg.integrations.knowledge.knowledge_file import NewDocument, add_dataset, store_document
from tests.fakes.knowledge_models import HashingEmbedder


class CountingEmbedder(HashingEmbedder):
    """Remembers what it embedded, and fails after so many texts."""

    def __init__(self, fails_after: int = 10**9) -> None:
        self.texts: list[str] = []
        self._fails_after = fails_after

    async def embed_chunks(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        if len(self.texts) >= self._fails_after:
            raise ServiceError("The model is gone.")
        self.texts += texts
        return await super().embed_chunks(texts)


class OneEmbedder:
    """`ragflow_lg.services.knowledge.Embedders` of one."""

    def __init__(self, embedder: Any = None) -> None:
        self._embedder = embedder or HashingEmbedder()

    def embedder(self, embedding_model: str) -> Any:
        return self._embedder


def fill(
    knowledge: EmbeddedKnowledge, dataset: str, documents: Mapping[str, Sequence[str]], model: str = KEYWORDS
) -> None:
    """Add a dataset with documents whose chunks are these texts."""
    with knowledge.file.writing() as connection:
        record = add_dataset(connection, dataset, model)
        for name, texts in documents.items():
            chunks = [TextChunk(text, [[0, 0, 0, 1, 1]]) for text in texts]
            document = NewDocument(name, f"/{name}", name, {"kind": ["a", "b"]}, chunks)
            vectors = [HashingEmbedder().vector(text) for text in texts]
            store_document(connection, record, document, vectors, "hashing" if model == KEYWORDS else "")


def stored_knowledge(path: Path, embedder: Any = None) -> EmbeddedKnowledge:
    """Open a knowledge base; the first write creates the file."""
    return EmbeddedKnowledge(path, OneEmbedder(embedder))
