"""The datasets of a server as one tenant uses them: those that it may search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.assembly.tenant_settings import describe_unshared_dataset, rights_in
from ragflow_lg.services.knowledge import (
    Dataset,
    DatasetDirectory,
    DatasetEntry,
    DatasetSearch,
    DocumentDirectory,
    DocumentEntry,
    Knowledge,
    ListedChunk,
    Metadata,
    SearchResult,
)

if TYPE_CHECKING:
    from ragflow_lg.server.settings import Settings


class TenantKnowledge:
    """A `ragflow_lg.services.knowledge.Knowledge` that finds only a tenant's datasets.

    Other tenants' datasets look like missing ones.
    """

    def __init__(self, knowledge: Knowledge, settings: Settings) -> None:
        self._knowledge = knowledge
        self._tenant = settings.tenant
        self._rights = rights_in(settings)

    async def datasets(self, names_or_ids: Sequence[str]) -> Mapping[str, Dataset]:
        """Find datasets by name or id.

        Raises:
            SettingsError: if one of them does not exist or belongs to others.
        """
        found = await self._knowledge.datasets(names_or_ids)
        for name in names_or_ids:
            if name not in found or not self._is_shared(found[name]):
                raise SettingsError(describe_unshared_dataset(self._tenant, name))
        return found

    async def list_datasets(self) -> Sequence[DatasetEntry]:
        """Return the tenant's datasets."""
        if not isinstance(self._knowledge, DatasetDirectory):
            return ()
        return [entry for entry in await self._knowledge.list_datasets() if self._is_shared(entry.dataset)]

    async def list_documents(self, dataset: Dataset, start: int, count: int) -> tuple[Sequence[DocumentEntry], int]:
        """Return some of the documents of one of the tenant's datasets, and the number of all.

        Raises:
            SettingsError: if the tenant may not use the dataset, or the store does not list documents.
        """
        return await self._documents(dataset).list_documents(dataset, start, count)

    async def list_chunks(
        self, dataset: Dataset, document: str, start: int, count: int
    ) -> tuple[Sequence[ListedChunk], int]:
        """Return some chunks of a document in one of the tenant's datasets, and the number of all.

        Raises:
            SettingsError: if the tenant may not use the dataset, or the store does not list chunks.
        """
        return await self._documents(dataset).list_chunks(dataset, document, start, count)

    async def search(self, search: DatasetSearch) -> SearchResult:
        """Search datasets.

        Raises:
            SettingsError: if the tenant may not use a dataset or the rerank model.
        """
        self._check(search.datasets)
        if search.rerank_id and not self._rights.has_model(search.rerank_id):
            raise SettingsError(
                f"The tenant {self._tenant!r} may not use the rerank model {search.rerank_id[:200]!r}. "
                f'Add it to models of [tenants."{self._tenant}"].'
            )
        return await self._knowledge.search(search)

    async def metadata(self, datasets: Sequence[Dataset]) -> Metadata:
        """Return the metadata of all documents."""
        self._check(datasets)
        return await self._knowledge.metadata(datasets)

    def _documents(self, dataset: Dataset) -> DocumentDirectory:
        self._check([dataset])
        if not isinstance(self._knowledge, DocumentDirectory):
            raise SettingsError("The store of the datasets does not list documents.")
        return self._knowledge

    def _check(self, datasets: Sequence[Dataset]) -> None:
        for dataset in datasets:
            if not self._is_shared(dataset):
                raise SettingsError(f"The tenant {self._tenant!r} has no dataset {dataset.name[:200]!r}.")

    def _is_shared(self, dataset: Dataset) -> bool:
        return any(self._rights.has_key("datasets", name) for name in (dataset.id, dataset.name))
