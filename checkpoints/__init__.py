"""Session stores: LangGraph savers, leases, run records, traces and cancellation, for memory, SQLite and Redis.

May import: `services`, `base`.
"""

from ragflow_lg.checkpoints.backends import open_store
from ragflow_lg.checkpoints.store import Store

__all__ = ["Store", "open_store"]
