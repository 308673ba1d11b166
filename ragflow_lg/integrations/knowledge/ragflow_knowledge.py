"""Search in the datasets of a running RAGFlow server over its HTTP API, with exactly the same scores.

Source: RAGFlow's HTTP API, ``POST /api/v1/retrieval`` and ``GET /api/v1/datasets``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from ragflow_lg.adapters.ragflow_api.api_client import ApiAddress, RagflowApi, as_map, as_rows
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.base.values import JsonValue, to_text
from ragflow_lg.services.http import HttpClient
from ragflow_lg.services.knowledge import (
    Dataset,
    DatasetEntry,
    DatasetSearch,
    DocumentCount,
    Metadata,
    SearchResult,
    add_metadata,
)
from ragflow_lg.services.references import Chunk

PAGE_SIZE = 100
MAX_ROWS = 20_000
"""Maximum number of datasets, or of documents in one dataset."""
MAX_SIDE_BY_SIDE = 100
"""Maximum number of requests at the same time."""

NO_DOCUMENT = "-999"
"""RAGFlow's id for a filter without matches; its API rejects unknown ids."""

_NAMES: Mapping[str, tuple[str, ...]] = {
    "chunk_id": ("id", "chunk_id"),
    "content_with_weight": ("content", "content_with_weight"),
    "doc_id": ("document_id", "doc_id"),
    "docnm_kwd": ("document_keyword", "document_name", "docnm_kwd"),
    "kb_id": ("dataset_id", "kb_id"),
    "important_kwd": ("important_keywords", "important_kwd"),
    "tag_kwd": ("tag_kwd",),
    "image_id": ("image_id", "img_id"),
    "similarity": ("similarity",),
    "vector_similarity": ("vector_similarity",),
    "term_similarity": ("term_similarity",),
    "positions": ("positions",),
    "doc_type_kwd": ("doc_type_kwd", "doc_type"),
    "mom_id": ("mom_id",),
    "row_id": ("row_id",),
}


class RagflowApiKnowledge:
    """A `ragflow_lg.services.knowledge.Knowledge` that uses RAGFlow's API."""

    def __init__(
        self,
        url: str,
        key: str,
        http: HttpClient,
        *,
        timeout_s: float = 60.0,
        setting: str = "[knowledge] url",
        key_setting: str = "[knowledge] api_key",
    ) -> None:
        """``url`` has no ``/api/v1``. Errors name the ``setting`` with the address, and the ``key_setting``.

        Nodes repeat what fails themselves.
        """
        address = ApiAddress(url, key, timeout_s, 1, f"RAGFlow ({setting})", key_setting)
        self._api = RagflowApi(address, http, side_by_side=MAX_SIDE_BY_SIDE)
        self._missing = "" if key else f"RAGFlow's API needs a key: set {key_setting}."

    async def datasets(self, names_or_ids: Sequence[str]) -> Mapping[str, Dataset]:
        """Return datasets that belong to the key's owner; names take precedence over ids."""
        if not names_or_ids:
            return {}
        records = [entry.dataset for entry in await self.list_datasets()]
        by_id = {record.id: record for record in records}
        known = {**by_id, **{record.name: record for record in reversed(records) if record.name}}
        return {key: known[key] for key in names_or_ids if key in known}

    async def list_datasets(self) -> Sequence[DatasetEntry]:
        """Return the datasets that belong to the key's owner."""
        entries: list[DatasetEntry] = []
        async for row in self._rows("/api/v1/datasets"):
            if id_ := to_text(row.get("id") or ""):
                texts = (to_text(row.get(key) or "") for key in ("name", "embedding_model", "tenant_id"))
                counts = (row.get(key) for key in ("document_count", "chunk_count"))
                sizes = (count if isinstance(count, int) else 0 for count in counts)
                entries.append(DatasetEntry(Dataset(id_, *texts), *sizes))
        return entries

    async def search(self, search: DatasetSearch) -> SearchResult:
        """Search with RAGFlow; every option is supported."""
        chosen = None if search.document_ids is None else [id_ for id_ in search.document_ids if id_ != NO_DOCUMENT]
        if not search.datasets or chosen == []:
            return SearchResult()
        body: dict[str, JsonValue] = {
            "question": search.question,
            "dataset_ids": [dataset.id for dataset in search.datasets],
            "page_size": min(search.top_n, PAGE_SIZE),
            "similarity_threshold": search.similarity_threshold,
            "vector_similarity_weight": 1 - search.keywords_similarity_weight,
            "top_k": search.top_k,
            "keyword": False,
            "highlight": False,
        }
        if chosen is not None:
            body["document_ids"] = list[JsonValue](chosen)
        if search.rerank_id:
            body["rerank_id"] = search.rerank_id
        body |= {name: True for name in ("use_kg", "toc_enhance") if getattr(search, name)}
        data: dict[str, Any] = {}
        chunks: list[Any] = []
        for page in range(1, -(-search.top_n // PAGE_SIZE) + 1):
            found = as_map(await self._checked().send("POST", "/api/v1/retrieval", body={**body, "page": page}))
            if not isinstance(found.get("chunks"), list):
                raise ServiceError(f"{self._api.name} answered without chunks.")
            data, chunks = data or found, [*chunks, *found["chunks"]]
            if len(found["chunks"]) < PAGE_SIZE:
                break
        return _parse_result({**data, "chunks": chunks}, search.top_n)

    async def metadata(self, datasets: Sequence[Dataset]) -> Metadata:
        """Return the metadata of all documents, from the document lists."""
        metadata: dict[str, dict[str, list[str]]] = {}
        for dataset in datasets:
            async for row in self._rows(f"/api/v1/datasets/{quote(dataset.id, safe='')}/documents", "docs"):
                add_metadata(metadata, to_text(row.get("id")), as_map(row.get("meta_fields")))
        return metadata

    def _rows(self, path: str, key: str = "") -> AsyncIterator[dict[str, Any]]:
        """Yield the rows on all pages of a list."""
        return self._checked().rows(path, key, limit=MAX_ROWS, page_size=PAGE_SIZE)

    def _checked(self) -> RagflowApi:
        if self._missing:
            raise SettingsError(self._missing)
        return self._api


def _parse_result(data: Mapping[str, Any], top_n: int) -> SearchResult:
    chunks = tuple(map(_chunk, as_rows(data["chunks"])[:top_n]))
    documents: list[DocumentCount] = []
    for row in as_rows(data.get("doc_aggs")):
        name, id_ = (to_text(row.get(key) or "") for key in ("doc_name", "doc_id"))
        count = row.get("count")
        documents.append(DocumentCount(name, id_, count if isinstance(count, int) else 0))
    total = data.get("total")
    return SearchResult(chunks, tuple(documents), total if isinstance(total, int) else len(chunks))


def _chunk(row: Mapping[str, Any]) -> Chunk:
    """Rename a chunk's fields to match RAGFlow's canvases."""
    chunk = {name: next((row[key] for key in keys if row.get(key) is not None), None) for name, keys in _NAMES.items()}
    for name in ("important_kwd", "tag_kwd", "positions"):
        chunk[name] = chunk[name] or []
    for name in ("image_id", "doc_type_kwd", "mom_id", "docnm_kwd", "content_with_weight"):
        chunk[name] = chunk[name] or ""
    return chunk
