"""Answering for datasets from a recording, without them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ragflow_lg.adapters.recording.cassette import DatasetsLine, MetadataLine, SearchLine
from ragflow_lg.adapters.recording.cassette_requests import datasets_request, metadata_request, search_request
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.dsl.redaction import Redactor
from ragflow_lg.services.knowledge import Dataset, DatasetSearch, DocumentCount, Metadata, SearchResult
from ragflow_lg.services.services import Caller

__all__ = ["KnowledgeLines", "ReplayedKnowledge"]


class KnowledgeLines(Protocol):
    """A recording: the exchange that answers a request. Each raises `CassetteError` without one."""

    def datasets(self, caller: Caller, request: dict[str, Any]) -> DatasetsLine:
        """Give the recorded look for datasets."""
        ...

    def search(self, caller: Caller, request: dict[str, Any]) -> SearchLine:
        """Give the recorded search."""
        ...

    def metadata(self, caller: Caller, request: dict[str, Any]) -> MetadataLine:
        """Give the recorded metadata."""
        ...


class ReplayedKnowledge:
    """A `ragflow_lg.services.knowledge.Knowledge` of one caller that gives what was recorded."""

    def __init__(self, lines: KnowledgeLines, caller: Caller, redactor: Redactor) -> None:
        self._lines = lines
        self._caller = caller
        self._redactor = redactor

    async def datasets(self, names_or_ids: Sequence[str]) -> Mapping[str, Dataset]:
        """Find datasets, by their place among those that are asked for."""
        line = self._lines.datasets(self._caller, datasets_request(names_or_ids, self._redactor))
        await asyncio.sleep(0)
        line.raise_failure()
        if line.datasets is None:
            raise _no_answer()
        found = zip(names_or_ids, line.datasets, strict=False)
        return {name: Dataset(**held.model_dump()) for name, held in found if held is not None}

    async def search(self, search: DatasetSearch) -> SearchResult:
        """Search datasets."""
        line = self._lines.search(self._caller, search_request(search, self._redactor))
        await asyncio.sleep(0)
        line.raise_failure()
        if line.found is None:
            raise _no_answer()
        documents = tuple(DocumentCount(*document) for document in line.found.documents)
        return SearchResult(tuple(line.found.chunks), documents, line.found.total)

    async def metadata(self, datasets: Sequence[Dataset]) -> Metadata:
        """Give the metadata of all documents."""
        line = self._lines.metadata(self._caller, metadata_request(datasets, self._redactor))
        await asyncio.sleep(0)
        line.raise_failure()
        if line.metadata is None:
            raise _no_answer()
        return line.metadata


def _no_answer() -> ServiceError:
    return ServiceError("The recording has no answer to this search.")
