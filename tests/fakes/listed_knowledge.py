"""Datasets that can only be listed."""

from collections.abc import Mapping, Sequence

from ragflow_lg.base.errors import RagflowLgError
from ragflow_lg.services.knowledge import Dataset, DatasetEntry
from tests.fakes.knowledge import SharedKnowledge


class ListedKnowledge(SharedKnowledge):
    """A dataset store that only lists."""

    def __init__(self, *entries: DatasetEntry, error: RagflowLgError | None = None) -> None:
        self.entries = entries
        self.error = error

    async def list_datasets(self) -> Sequence[DatasetEntry]:
        if self.error is not None:
            raise self.error
        return self.entries

    async def metadata(self, datasets: Sequence[Dataset]) -> Mapping[str, Mapping[str, Sequence[str]]]:
        return {"year": {"2026": [f"{dataset.id}-1" for dataset in datasets]}}
