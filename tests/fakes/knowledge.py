"""A knowledge store with given chunks: those of a conformance case, or a few by default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.services.knowledge import Dataset, DatasetSearch, DocumentCount, Metadata, SearchResult

Row: TypeAlias = dict[str, Any]


def chunk(id_: str, content: str, document: str = "guide.pdf", dataset: str = "ds1", **more: Any) -> dict[str, Any]:
    """Return a chunk as a search returns it."""
    similarity = more.pop("similarity", 0.8)
    scores = dict.fromkeys(("similarity", "vector_similarity", "term_similarity"), similarity)
    base = {"chunk_id": id_, "content_with_weight": content, "doc_id": f"doc-{document}", "docnm_kwd": document}
    return {**base, "kb_id": dataset, **scores, "positions": [], "image_id": "", **more}


class SharedKnowledge:
    """A knowledge store of which tenants get parts."""

    def for_tenant(self: Any, settings: Any, services: Any) -> Any:
        from ragflow_lg.integrations.knowledge.tenant_knowledge import TenantKnowledge

        return TenantKnowledge(self, settings)


@dataclass
class FakeKnowledge(SharedKnowledge):
    """A knowledge store that returns the chunks of the requested datasets over the threshold.

    A chunk with ``when`` is returned only for questions with that text. It records searches; with ``error`` they fail.
    """

    known: Sequence[Dataset] = (Dataset("ds1", "Manuals", "embed@Test"), Dataset("ds2", "News", "embed@Test"))
    chunks: Sequence[Any] = (chunk("c-rice", "Rice needs water."), chunk("c-tea", "Tea likes hills.", "tea.md"))
    metas: Metadata = field(default_factory=dict[str, Any])
    error: str = ""
    searches: list[DatasetSearch] = field(default_factory=list[DatasetSearch])

    @classmethod
    def of_case(cls, kb: Mapping[str, Any]) -> FakeKnowledge:
        """Return the datasets of a conformance case."""
        known = [Dataset(d["id"], d["name"], d.get("embd_id", "embed@Test")) for d in kb.get("datasets", ())]
        return cls(known, kb.get("chunks", ()), kb.get("metas", {}), kb.get("raise", ""))

    async def datasets(self, names_or_ids: Sequence[str]) -> Mapping[str, Dataset]:
        by_id, by_name = {d.id: d for d in self.known}, {d.name: d for d in self.known}
        known = {**by_id, **by_name}
        return {name: known[name] for name in names_or_ids if name in known}

    async def search(self, search: DatasetSearch) -> SearchResult:
        self.searches.append(search)
        if self.error:
            raise ServiceError(self.error)
        maps = [cast("Row", chunk) for chunk in self.chunks if isinstance(chunk, dict)]
        others = [chunk for chunk in self.chunks if not isinstance(chunk, dict)]
        rows = [row for row in maps if self._fits(row, search)]
        results: list[Any] = [{k: v for k, v in row.items() if k != "when"} for row in rows] + others
        counts: dict[str, DocumentCount] = {}
        for row in rows:
            name = str(row.get("docnm_kwd"))
            count = counts.get(name, DocumentCount(name, str(row.get("doc_id")), 0))
            counts[name] = count._replace(chunks=count.chunks + 1)
        documents = tuple(sorted(counts.values(), key=lambda document: -document.chunks))
        return SearchResult(tuple(results[: search.top_n]), documents, len(results))

    def _fits(self, row: Row, search: DatasetSearch) -> bool:
        return (
            row.get("kb_id", "ds1") in {dataset.id for dataset in search.datasets}
            and (search.document_ids is None or row.get("doc_id") in search.document_ids)
            and row.get("similarity", 1) >= search.similarity_threshold
            and row.get("when", "") in search.question
        )

    async def metadata(self, datasets: Sequence[Dataset]) -> Metadata:
        return self.metas
