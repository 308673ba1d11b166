"""Where sessions live between turns."""

from ragflow_lg.checkpoints.store import Store, open_store

__all__ = ["Store", "open_store"]
