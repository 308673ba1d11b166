"""What the commands of ``ragflow-lg kb`` share."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.cli.terminal import printable

if TYPE_CHECKING:
    from ragflow_lg.adapters.knowledge.knowledge_database import KnowledgeDatabase
    from ragflow_lg.adapters.knowledge.knowledge_records import DatasetRecord

__all__ = ["tell", "the_database", "the_dataset"]


def the_dataset(database: KnowledgeDatabase, name_or_id: str) -> DatasetRecord:
    """Give a dataset.

    Raises:
        SettingsError: if there is none.
    """
    from ragflow_lg.adapters.knowledge.knowledge_records import find_dataset

    found = None
    if database.exists:
        with database.reading() as connection:
            found = find_dataset(connection, name_or_id)
    if found is None:
        raise SettingsError(f"There is no dataset {name_or_id!r}; `ragflow-lg kb list` shows what there is.")
    return found


def the_database(settings: Path | None) -> KnowledgeDatabase:
    """Give the file of the embedded knowledge base.

    Raises:
        SettingsError: if the settings name a server.
    """
    from ragflow_lg.server.assembly.knowledge_sources import SettingsKnowledge
    from ragflow_lg.server.settings import load_settings

    return SettingsKnowledge(load_settings(settings)).embedded().database


def tell(line: str) -> None:
    """Write a line to standard output."""
    sys.stdout.write(printable(line).replace("\n", " ") + "\n")
