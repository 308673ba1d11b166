"""Several stores of datasets, searched as one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import chain, zip_longest

from msgspec.structs import replace

from ragflow_lg.services.knowledge import (
    Dataset,
    DatasetDirectory,
    DatasetEntry,
    DatasetSearch,
    Knowledge,
    Metadata,
    SearchResult,
)
from ragflow_lg.services.services import SupportsClose


class JoinedKnowledge:
    """A `ragflow_lg.services.knowledge.Knowledge` over stores with one dataset each, and one for all others."""

    def __init__(self, own: Mapping[str, Knowledge], others: Knowledge) -> None:
        """Initialize. The keys of ``own`` are the ids of the datasets."""
        self._own = dict(own)
        self._others = others

    async def datasets(self, names_or_ids: Sequence[str]) -> Mapping[str, Dataset]:
        """Return datasets by name or id; those with a store of their own first."""
        known: dict[str, Dataset] = {}
        for knowledge in self._own.values():
            known.update(await knowledge.datasets(names_or_ids))
        rest = [name for name in names_or_ids if name not in known]
        return {**(await self._others.datasets(rest) if rest else {}), **known}

    async def list_datasets(self) -> Sequence[DatasetEntry]:
        """Return all datasets that the stores can list."""
        stores = [store for store in (*self._own.values(), self._others) if isinstance(store, DatasetDirectory)]
        return [*chain.from_iterable([await store.list_datasets() for store in stores])]

    async def metadata(self, datasets: Sequence[Dataset]) -> Metadata:
        """Return the metadata of all documents."""
        merged: dict[str, dict[str, list[str]]] = {}
        for store, chosen in self._by_store(datasets):
            for key, values in (await store.metadata(chosen)).items():
                for value, ids in values.items():
                    merged.setdefault(key, {}).setdefault(value, []).extend(ids)
        return merged

    async def search(self, search: DatasetSearch) -> SearchResult:
        """Search all stores at once. Their best chunks come first, then the second ones, and so on.

        Scores of different stores have different scales, so they are not compared. If one store fails, the search
        fails.
        """
        groups = self._by_store(search.datasets)
        if len(groups) == 1:
            return await groups[0][0].search(search)
        searches = [store.search(replace(search, datasets=chosen)) for store, chosen in groups]
        outcomes = await asyncio.gather(*searches, return_exceptions=True)
        results: list[SearchResult] = []
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
            results.append(outcome)
        rounds = zip_longest(*(result.chunks for result in results))
        chunks = [chunk for chunk in chain.from_iterable(rounds) if chunk is not None]
        documents = sorted(chain.from_iterable(result.documents for result in results), key=lambda each: -each.chunks)
        return SearchResult(tuple(chunks[: search.top_n]), tuple(documents), sum(result.total for result in results))

    async def aclose(self) -> None:
        """Close the stores that can be closed."""
        for store in (*self._own.values(), self._others):
            if isinstance(store, SupportsClose):
                await store.aclose()

    def _by_store(self, datasets: Sequence[Dataset]) -> list[tuple[Knowledge, tuple[Dataset, ...]]]:
        """Return the stores with their datasets, in the order in which the datasets name them."""
        groups: dict[str, list[Dataset]] = {}
        for dataset in datasets:
            groups.setdefault(dataset.id if dataset.id in self._own else "", []).append(dataset)
        return [(self._own.get(key, self._others), tuple(chosen)) for key, chosen in groups.items()]
