"""The datasets of a running RAGFlow, searched by RAGFlow itself: its scores, exactly.

Source: RAGFlow's HTTP API, ``POST /api/v1/retrieval`` and ``GET /api/v1/datasets``.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Literal, cast
from urllib.parse import quote

from msgspec import Struct

from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.base.values import JsonValue, to_text
from ragflow_lg.services.http import HttpClient, HttpRequest
from ragflow_lg.services.knowledge import Dataset, DatasetSearch, DocumentCount, Metadata, SearchResult
from ragflow_lg.services.references import Chunk

__all__ = ["RagflowApiKnowledge", "RagflowApiSettings"]

PAGE_SIZE = 100
MAX_PAGES = 200
"""More datasets, or documents of one, are not looked through."""

NO_DOCUMENT = "-999"
"""RAGFlow's id for a filter that nothing fits; its API refuses ids that it does not have."""

_MAX_SAID_CHARS = 300
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


class RagflowApiSettings(Struct, frozen=True):
    """Where RAGFlow is: its address without ``/api/v1``, and a key of its API."""

    base_url: str
    api_key: str
    timeout_s: float = 60.0

    def __repr__(self) -> str:
        """Leave the key out."""
        return f"RagflowApiSettings({self.base_url!r})"


class RagflowApiKnowledge:
    """`ragflow_lg.services.knowledge.Knowledge` by RAGFlow's own API."""

    def __init__(self, settings: RagflowApiSettings, http: HttpClient) -> None:
        self._settings = settings
        self._http = http

    async def datasets(self, names_or_ids: Sequence[str]) -> Mapping[str, Dataset]:
        """Find datasets of the key's owner; a name goes before an id."""
        if not names_or_ids:
            return {}
        records: list[Dataset] = []
        async for row in self._rows("/api/v1/datasets", ""):
            id_ = to_text(row.get("id") or "")
            texts = (to_text(row.get(key) or "") for key in ("name", "embedding_model", "tenant_id"))
            records += [Dataset(id_, *texts)] if id_ else []
        by_id = {record.id: record for record in records}
        known = {**by_id, **{record.name: record for record in reversed(records) if record.name}}
        return {asked: known[asked] for asked in names_or_ids if asked in known}

    async def search(self, search: DatasetSearch) -> SearchResult:
        """Let RAGFlow search; it knows every parameter."""
        chosen = None if search.document_ids is None else [id_ for id_ in search.document_ids if id_ != NO_DOCUMENT]
        if not search.datasets or chosen == []:
            return SearchResult()
        body: dict[str, JsonValue] = {
            "question": search.question,
            "dataset_ids": [dataset.id for dataset in search.datasets],
            "page": 1,
            "page_size": search.top_n,
            "similarity_threshold": search.similarity_threshold,
            "vector_similarity_weight": 1 - search.keywords_similarity_weight,
            "top_k": search.top_k,
            "keyword": False,
            "highlight": False,
        }
        if chosen is not None:
            body["document_ids"] = chosen
        if search.rerank_id:
            body["rerank_id"] = search.rerank_id
        body |= {name: True for name in ("use_kg", "toc_enhance") if getattr(search, name)}
        data = await self._ask("POST", "/api/v1/retrieval", body=body)
        if not isinstance(data, dict) or not isinstance(cast("dict[str, Any]", data).get("chunks"), list):
            raise self._failure("answered without chunks")
        return self._found(cast("dict[str, Any]", data), search.top_n)

    async def metadata(self, datasets: Sequence[Dataset]) -> Metadata:
        """Give the metadata of all documents, which are listed for it."""
        found: dict[str, dict[str, list[str]]] = {}
        for dataset in datasets:
            async for row in self._rows(f"/api/v1/datasets/{quote(dataset.id, safe='')}/documents", "docs"):
                fields: Any = row.get("meta_fields")
                entries = cast("dict[str, Any]", fields).items() if isinstance(fields, dict) else ()
                for key, value in entries:
                    for entry in cast("list[Any]", value) if isinstance(value, list) else [value]:
                        found.setdefault(key, {}).setdefault(to_text(entry), []).append(to_text(row.get("id")))
        return found

    def _found(self, data: Mapping[str, Any], top_n: int) -> SearchResult:
        rows = [cast("dict[str, Any]", row) for row in cast("list[Any]", data["chunks"]) if isinstance(row, dict)]
        chunks = tuple(_chunk(row) for row in rows[:top_n])
        documents: list[DocumentCount] = []
        for row in cast("list[Any]", data.get("doc_aggs") or []):
            if isinstance(row, dict):
                named = cast("dict[str, Any]", row)
                count = named.get("count")
                name, id_ = (to_text(named.get(key) or "") for key in ("doc_name", "doc_id"))
                documents.append(DocumentCount(name, id_, count if isinstance(count, int) else 0))
        total = data.get("total")
        return SearchResult(chunks, tuple(documents), total if isinstance(total, int) else len(chunks))

    async def _rows(self, path: str, key: str) -> AsyncIterator[dict[str, Any]]:
        """Give the rows of all pages of a list, which is the data itself or stands in it."""
        for page in range(1, MAX_PAGES + 1):
            query = {"page": str(page), "page_size": str(PAGE_SIZE)}
            data = await self._ask("GET", path, query=query)
            rows: Any = cast("dict[str, Any]", data).get(key) if key and isinstance(data, dict) else data
            if not isinstance(rows, list):
                raise self._failure("answered without a list")
            listed = cast("list[Any]", rows)
            for row in listed:
                if isinstance(row, dict):
                    yield cast("dict[str, Any]", row)
            if len(listed) < PAGE_SIZE:
                return
        raise self._failure(f"lists more than {PAGE_SIZE * MAX_PAGES:,} entries, which are not looked through")

    async def _ask(
        self,
        method: Literal["GET", "POST"],
        path: str,
        *,
        body: JsonValue = None,
        query: Mapping[str, str] | None = None,
    ) -> Any:
        """Ask, and give the data of the answer."""
        settings = self._settings
        if not settings.api_key:
            raise SettingsError(
                "RAGFlow's API asks for a key: set [knowledge] api_key_env to the variable that holds it."
            )
        request = HttpRequest(
            method,
            settings.base_url.rstrip("/") + path,
            headers={"Authorization": f"Bearer {settings.api_key}"},
            query=query or {},
            json=body,
            timeout_s=settings.timeout_s,
        )
        try:
            response = await self._http.send(request)
        except ServiceError as error:
            raise self._failure(f"cannot be asked: {error}", is_retryable=error.is_retryable) from error
        try:
            answer: Any = json.loads(response.text)
        except (ValueError, RecursionError):
            answer = None
        said = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
        if response.status != 200 or said.get("code") != 0:
            raise self._refused(response.status, said)
        return said.get("data")

    def _refused(self, status: int, said: Mapping[str, Any]) -> ServiceError:
        message = " ".join(str(said.get("message", "")).split()).replace(self._settings.api_key, "***")
        is_key = status in (401, 403) or "api key" in message.lower()
        if "code" not in said and status == 200:
            return self._failure("answered in another way than its API does; check [knowledge] url")
        what = f"refused ({said.get('code', status)}): {message[:_MAX_SAID_CHARS] or 'it gives no reason'}"
        advice = "; check [knowledge] api_key_env" if is_key else ""
        return self._failure(what.rstrip(".") + advice, is_retryable=status == 429 or status >= 500)

    def _failure(self, what: str, *, is_retryable: bool = False) -> ServiceError:
        return ServiceError(f"RAGFlow ([knowledge] url) {what.rstrip('.')}.", is_retryable=is_retryable)


def _chunk(row: Mapping[str, Any]) -> Chunk:
    """Give a chunk the names that it has in RAGFlow's canvases."""
    found = {name: next((row[key] for key in keys if row.get(key) is not None), None) for name, keys in _NAMES.items()}
    for name in ("important_kwd", "tag_kwd", "positions"):
        found[name] = found[name] or []
    for name in ("image_id", "doc_type_kwd", "mom_id", "docnm_kwd", "content_with_weight"):
        found[name] = found[name] or ""
    return found
