"""Events of runs as JSON, and back: ``[name, fields]``."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from ragflow_lg.base.errors import RunInterruptedError, StreamError
from ragflow_lg.component.events import AgentRecord
from ragflow_lg.server.streaming.error_codec import StoredError
from ragflow_lg.wire.wire_events import (
    Message,
    MessageEnd,
    UserInputs,
    WireEvent,
    WireNodeFinished,
    WireNodeStarted,
    WorkflowFinished,
    WorkflowStarted,
)

__all__ = ["StreamEvent", "RunEnd", "decode_entry", "encode_entry", "to_json_bytes"]

StreamEvent: TypeAlias = WireEvent | AgentRecord
"""What followers of a run are given."""


class RunEnd(Struct, frozen=True):
    """The last entry of a run: how it ended. ``status`` is that of `ragflow_lg.runs.run.Run`.

    Behind one that says that the run was interrupted more may come: from the run manager that goes on with it.
    """

    status: str
    error: StoredError | None = None
    player: str = ""
    """Whose end it is: the run manager that played the run until then."""

    @property
    def is_interruption(self) -> bool:
        """Whether another run manager may go on."""
        return self.error is not None and self.error.code == RunInterruptedError.code

    event = "end"


_KINDS: tuple[Any, ...] = (
    AgentRecord,
    Message,
    MessageEnd,
    WireNodeFinished,
    WireNodeStarted,
    RunEnd,
    UserInputs,
    WorkflowFinished,
    WorkflowStarted,
)
_TYPES: dict[str, Any] = {kind.event: kind for kind in _KINDS}
_DECODERS: dict[str, Any] = {name: msgspec.json.Decoder(kind) for name, kind in _TYPES.items()}
_PAIR: msgspec.json.Decoder[tuple[str, msgspec.Raw]] = msgspec.json.Decoder(tuple[str, msgspec.Raw])


def _null(_: Any) -> None:
    """Stand in for what JSON has no word for, as RAGFlow's streams do."""


_ENCODER = msgspec.json.Encoder(enc_hook=_null)


def to_json_bytes(value: Any) -> bytes:
    """Write JSON in one line of UTF-8; what JSON has no word for becomes null.

    A text with half of a surrogate pair is written with escapes: a model's answer may be cut within an emoji, and a
    client that joins the pieces gets it whole.
    """
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value, enc_hook=_null), separators=(",", ":")).encode()


def encode_entry(entry: StreamEvent | RunEnd) -> bytes:
    """Write an event, or the end."""
    return to_json_bytes((entry.event, entry))


def decode_entry(data: bytes) -> StreamEvent | RunEnd:
    """Read what `encode_entry` wrote, as equal values; nothing but events comes of it.

    Raises:
        StreamError: if it was not written so.
    """
    try:
        return _decoded(data)
    except (msgspec.MsgspecError, ValueError, RecursionError, LookupError, TypeError) as error:
        raise StreamError(f"A stored event cannot be read: {type(error).__name__}: {str(error)[:200]}.") from error


def _decoded(data: bytes) -> StreamEvent | RunEnd:
    try:
        name, fields = _PAIR.decode(data)
        return _DECODERS[name].decode(fields)
    except msgspec.DecodeError:
        pair: Any = json.loads(data)  # which knows halves of surrogate pairs
        return msgspec.convert(pair[1], _TYPES[pair[0]])
