"""Converts run events to JSON, ``[name, fields]``, and back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct, field

from ragflow_lg.base.errors import RagflowLgError, RunError, StreamError, StreamInterruptedError
from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.events import AgentRecord
from ragflow_lg.runs.wire.wire_events import (
    Message,
    MessageEnd,
    MessageReset,
    UserInputs,
    WireEvent,
    WireNodeFinished,
    WireNodeStarted,
    WorkflowFinished,
    WorkflowStarted,
)

_FIELDS = frozenset({"first", "is_retryable", "limit_s", "node", "problems", "retry_after_s", "target"})
"""The error attributes that are stored. All are plain JSON."""


class StoredError(Struct, frozen=True):
    """An error: its class's ``code``, its text and its attributes."""

    code: str
    text: str
    fields: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])


def store_error(error: RagflowLgError) -> StoredError:
    """Convert an error to its stored form."""
    return StoredError(error.code, str(error), {key: vars(error)[key] for key in sorted(_FIELDS & vars(error).keys())})


def revive_error(stored: StoredError) -> RagflowLgError:
    """Rebuild the error with its class, text and attributes. An unknown code becomes a RunError."""
    kind = next((kind for kind in _iter_subclasses(RagflowLgError) if kind.code == stored.code), RunError)
    # Bypass __init__, as pickling does, because constructors accept arguments other than the text.
    error: Any = kind.__new__(kind, stored.text)
    Exception.__init__(error, stored.text)
    fields = {key: value for key, value in stored.fields.items() if key in _FIELDS}
    error.__dict__.update({"node": "", **fields} if issubclass(kind, RunError) else fields)
    return error


def _iter_subclasses(base: type[RagflowLgError]) -> Iterator[type[RagflowLgError]]:
    yield base
    for child in base.__subclasses__():
        yield from _iter_subclasses(child)


StreamEvent: TypeAlias = WireEvent | AgentRecord
"""The items that a run's followers receive."""


LOST = "lost"
"""The status of an interrupted run whose session another process has taken: it counts as one whose process has died."""


class RunEnd(Struct, frozen=True):
    """A run's last entry, which says how it ended. ``status`` is the same as in `ragflow_lg.runs.run.Run`, or `LOST`.

    If the run was interrupted, more entries may follow, written by the run manager that continues it.
    """

    status: str
    error: StoredError | None = None
    player: str = ""
    """The run manager that executed the run up to this entry."""

    @property
    def is_interruption(self) -> bool:
        """Whether another run manager can continue the run."""
        return self.error is not None and self.error.code == StreamInterruptedError.code

    event = "end"


_KINDS: tuple[Any, ...] = (
    AgentRecord,
    Message,
    MessageEnd,
    MessageReset,
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
    """Return None for values without a JSON form, as RAGFlow's streams do."""


_ENCODER = msgspec.json.Encoder(enc_hook=_null)


def to_json_bytes(value: Any) -> bytes:
    """Encode a value as one line of UTF-8 JSON. Values without a JSON form become null.

    Text with an unpaired surrogate is written with escapes: a model's answer may be split inside an emoji, and clients
    that join the pieces restore it.
    """
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value, enc_hook=_null), separators=(",", ":")).encode()


def encode_entry(entry: StreamEvent | RunEnd) -> bytes:
    """Encode an event or a run's end."""
    return to_json_bytes((entry.event, entry))


def decode_entry(data: bytes) -> StreamEvent | RunEnd:
    """Decode what `encode_entry` wrote into equal values; no other types are created.

    Raises:
        StreamError: If the data has a different form.
    """
    try:
        try:
            name, fields = _PAIR.decode(data)
            return _DECODERS[name].decode(fields)
        except msgspec.DecodeError:
            pair: Any = json.loads(data)  # accepts unpaired surrogates
            return msgspec.convert(pair[1], _TYPES[pair[0]])
    except (msgspec.MsgspecError, ValueError, RecursionError, LookupError, TypeError) as error:
        raise StreamError(f"A stored event cannot be read: {type(error).__name__}: {str(error)[:200]}.") from error
