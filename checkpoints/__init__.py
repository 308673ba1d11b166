"""Session stores: LangGraph savers, leases, run records, traces and cancellation, for memory, SQLite and Redis.

May import: `services`, `base`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragflow_lg.checkpoints.backends import open_store
    from ragflow_lg.checkpoints.store import Store

__all__ = ["Store", "open_store"]


def __getattr__(name: str) -> object:
    """Import the names on first use, because they load LangGraph. Checking a store's URL does not need it."""
    if name == "Store":
        from ragflow_lg.checkpoints.store import Store

        return Store
    if name == "open_store":
        from ragflow_lg.checkpoints.backends import open_store

        return open_store
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
