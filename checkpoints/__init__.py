"""Where sessions live between turns."""

from checkpoints.factory import Store, open_store

__all__ = ["Store", "open_store"]
