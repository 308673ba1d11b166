"""Session stores: LangGraph savers, leases, records and cancellation, in memory, SQLite, PostgreSQL and Redis.

Beside them, LangGraph's ``BaseStore`` for what outlives sessions. May import: `services`, `base`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragflow_lg.checkpoints.backends import open_store
    from ragflow_lg.checkpoints.items import ItemStore, open_items
    from ragflow_lg.checkpoints.store import Store

__all__ = ["ItemStore", "Store", "open_items", "open_store"]

_MODULES = {"ItemStore": "items", "Store": "store", "open_items": "items", "open_store": "backends"}


def __getattr__(name: str) -> object:
    """Import the names on first use, because they load LangGraph. Checking a store's URL does not need it."""
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
