"""Runs that outlive their connections: event journals, streams that clients can leave and resume, and the queue.

May import ``checkpoints``, ``base``, ``component``, ``services`` and ``wire``, but nothing else from the server.
"""

from ragflow_lg.server.streaming.event_codec import RunEnd, StreamEvent
from ragflow_lg.server.streaming.journal import Bounds, Journal, RunHead
from ragflow_lg.server.streaming.memory_journal import MemoryJournal
from ragflow_lg.server.streaming.open_journal import open_journal
from ragflow_lg.server.streaming.run_manager import RunManager
from ragflow_lg.server.streaming.run_task import (
    CANCEL,
    CONTINUE,
    DEFAULT_POLICY,
    DisconnectPolicy,
    RunSpec,
    parse_policy,
)

__all__ = [
    "CANCEL",
    "CONTINUE",
    "DEFAULT_POLICY",
    "Bounds",
    "DisconnectPolicy",
    "Journal",
    "MemoryJournal",
    "RunEnd",
    "RunHead",
    "RunManager",
    "RunSpec",
    "StreamEvent",
    "open_journal",
    "parse_policy",
]
