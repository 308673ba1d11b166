"""Where sessions live between turns."""

from checkpoints.factory import open_saver

__all__ = ["open_saver"]
