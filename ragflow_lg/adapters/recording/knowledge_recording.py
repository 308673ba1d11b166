"""Recording what a run asks of datasets, and what they answer."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from ragflow_lg.adapters.recording.cassette import (
    DatasetEntry,
    DatasetsLine,
    FailureRecord,
    FoundRecord,
    Line,
    MetadataLine,
    SearchLine,
)
from ragflow_lg.adapters.recording.cassette_requests import datasets_request, metadata_request, search_request
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.dsl.redaction import REDACTED, Redactor, is_secret_name
from ragflow_lg.services.knowledge import Dataset, DatasetSearch, Knowledge, Metadata, SearchResult
from ragflow_lg.services.services import Caller

__all__ = ["RecordedKnowledge"]

T = TypeVar("T")


class RecordedKnowledge:
    """A `ragflow_lg.services.knowledge.Knowledge` of one caller that is written down."""

    def __init__(
        self,
        knowledge: Knowledge,
        caller: Caller,
        redactor: Redactor,
        begin: Callable[[], int],
        write: Callable[[Line], None],
    ) -> None:
        """``begin`` gives the number of the request that is made now."""
        self._knowledge = knowledge
        self._caller = caller
        self._redactor = redactor
        self._begin = begin
        self._write = write

    async def datasets(self, names_or_ids: Sequence[str]) -> Mapping[str, Dataset]:
        """Find datasets."""
        exchange = _Exchange[Mapping[str, Dataset]](self._begin(), datasets_request(names_or_ids, self._redactor))
        try:
            return await exchange.ended(self._knowledge.datasets(names_or_ids))
        finally:
            datasets = None
            if exchange.answer is not None:
                datasets = [self._dataset(exchange.answer.get(name)) for name in names_or_ids]
            self._write(DatasetsLine(**self._common(exchange), datasets=datasets))

    async def search(self, search: DatasetSearch) -> SearchResult:
        """Search datasets."""
        exchange = _Exchange[SearchResult](self._begin(), search_request(search, self._redactor))
        try:
            return await exchange.ended(self._knowledge.search(search))
        finally:
            found = self._found(exchange.answer) if exchange.answer is not None else None
            self._write(SearchLine(**self._common(exchange), found=found))

    async def metadata(self, datasets: Sequence[Dataset]) -> Metadata:
        """Give the metadata of all documents."""
        exchange = _Exchange[Metadata](self._begin(), metadata_request(datasets, self._redactor))
        try:
            return await exchange.ended(self._knowledge.metadata(datasets))
        finally:
            metadata = self._metadata(exchange.answer) if exchange.answer is not None else None
            self._write(MetadataLine(**self._common(exchange), metadata=metadata))

    def _common(self, exchange: _Exchange[Any]) -> dict[str, Any]:
        """Give what every exchange is written down with."""
        failure = FailureRecord.of(exchange.failure, self._redactor)
        if failure is not None and isinstance(exchange.failure, SettingsError):
            failure = failure.model_copy(update={"is_setting": True})
        return {
            "order": exchange.order,
            "node": self._caller.node,
            "position": self._caller.position,
            "request": exchange.request,
            "error": failure,
            "is_stopped": exchange.answer is None and exchange.failure is None,
        }

    def _dataset(self, dataset: Dataset | None) -> DatasetEntry | None:
        if dataset is None:
            return None
        return DatasetEntry(**{name: self._redactor.text(text) for name, text in dataset._asdict().items()})

    def _found(self, found: SearchResult) -> FoundRecord:
        redactor = self._redactor
        chunks, documents = json.loads(json.dumps([found.chunks, found.documents], default=str))
        redactor.learn_from(chunks)
        return FoundRecord(
            chunks=[redactor.value(chunk) for chunk in chunks],
            documents=[redactor.value(document) for document in documents],
            total=found.total,
        )

    def _metadata(self, metadata: Metadata) -> dict[str, dict[str, list[str]]]:
        """Write metadata down; of a key that is named like a secret, only which documents have it."""
        written: dict[str, dict[str, list[str]]] = {}
        for key, values in metadata.items():
            held = written.setdefault(self._redactor.text(key), {})
            for value, ids in values.items():
                shown = REDACTED if is_secret_name(key) else self._redactor.text(value)
                held.setdefault(shown, []).extend(self._redactor.text(id_) for id_ in ids)
        return written


class _Exchange(Generic[T]):
    """A request, and how it ended: with an answer, an error, or neither."""

    def __init__(self, order: int, request: dict[str, Any]) -> None:
        self.order = order
        self.request = request
        self.answer: T | None = None
        self.failure: ServiceError | SettingsError | None = None

    async def ended(self, asked: Awaitable[T]) -> T:
        """Wait for the end."""
        try:
            self.answer = await asked
        except (ServiceError, SettingsError) as error:
            self.failure = error
            raise
        return self.answer
