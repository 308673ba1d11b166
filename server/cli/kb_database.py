"""Opening the embedded knowledge base for the commands of ``ragflow-lg kb``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ragflow_lg.base.errors import SettingsError

if TYPE_CHECKING:
    from ragflow_lg.adapters.knowledge.knowledge_database import KnowledgeDatabase
    from ragflow_lg.adapters.knowledge.knowledge_records import DatasetRecord

__all__ = ["get_dataset", "knowledge_database", "no_dataset"]


def knowledge_database(settings: Path | None) -> KnowledgeDatabase:
    """Return the database of the embedded knowledge base.

    Raises:
        SettingsError: If the settings name a server instead.
    """
    from ragflow_lg.server.assembly.knowledge_sources import SettingsKnowledge
    from ragflow_lg.server.settings import load_settings

    return SettingsKnowledge(load_settings(settings)).embedded().database


def get_dataset(database: KnowledgeDatabase, name_or_id: str) -> DatasetRecord:
    """Return a dataset.

    Raises:
        SettingsError: If it does not exist.
    """
    from ragflow_lg.adapters.knowledge.knowledge_records import find_dataset

    dataset = None
    if database.exists:
        with database.reading() as connection:
            dataset = find_dataset(connection, name_or_id)
    if dataset is None:
        raise no_dataset(name_or_id)
    return dataset


def no_dataset(name_or_id: str) -> SettingsError:
    """Return the error for a dataset that does not exist."""
    return SettingsError(f"There is no dataset {name_or_id!r}; `ragflow-lg kb list` lists all datasets.")
