"""Runs that go on by themselves, and streams of their events that can be left and taken up again."""

from server.streaming.event_codec import Followed, RunEnd
from server.streaming.factory import open_journal
from server.streaming.hub import RunHub
from server.streaming.journal import Journal, RunHead
from server.streaming.memory_journal import MemoryJournal
from server.streaming.policy import CANCEL, CONTINUE, DEFAULT_POLICY, DisconnectPolicy, parse_policy
from server.streaming.window import Bounds

__all__ = [
    "CANCEL",
    "CONTINUE",
    "DEFAULT_POLICY",
    "Bounds",
    "DisconnectPolicy",
    "Followed",
    "Journal",
    "MemoryJournal",
    "RunEnd",
    "RunHead",
    "RunHub",
    "open_journal",
    "parse_policy",
]
