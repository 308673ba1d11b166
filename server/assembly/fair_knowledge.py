"""The datasets of a server, searched by its tenants in turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from ragflow_lg.services.knowledge import Dataset, DatasetSearch, Knowledge, Metadata, SearchResult

if TYPE_CHECKING:
    from ragflow_lg.adapters.workers.fair_slots import FairSlots


class FairKnowledge(Struct, frozen=True):
    """A dataset store as one tenant uses it: its searches wait for slots that all tenants share fairly."""

    knowledge: Knowledge
    slots: FairSlots
    tenant: str

    async def datasets(self, names_or_ids: Sequence[str]) -> Mapping[str, Dataset]:
        """Return datasets by requested name or id."""
        return await self.knowledge.datasets(names_or_ids)

    async def search(self, search: DatasetSearch) -> SearchResult:
        """Search datasets.

        Raises:
            WorkLimitError: if too many of the tenant's searches are waiting.
        """
        async with self.slots.slot(self.tenant):
            return await self.knowledge.search(search)

    async def metadata(self, datasets: Sequence[Dataset]) -> Metadata:
        """Return the metadata of all documents.

        Raises:
            WorkLimitError: if too many of the tenant's searches are waiting.
        """
        async with self.slots.slot(self.tenant):
            return await self.knowledge.metadata(datasets)
