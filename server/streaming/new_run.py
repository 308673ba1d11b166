"""What it takes to start a run: its ids, and the request that it answers."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct, field

from ragflow_lg.base.errors import RequestError, SessionKeyError, StreamError
from ragflow_lg.checkpoints.key_ring import KeyRing, require_plain, run_domain
from ragflow_lg.runs.wire.wire_events import Envelope


class Owner(NamedTuple):
    """Someone who may have a limited number of runs in the queue and in play."""

    kind: str
    """What a refusal calls it."""
    id: str
    limit: int
    """0 for any number."""


class NewRun(Struct, frozen=True, omit_defaults=True):
    """A run that is to be played. Fields that a newer version adds are ignored."""

    envelope: Envelope
    tenant: str
    agent_id: str
    intent: Literal["start", "resume", "continue"] = "start"
    request: dict[str, Any] = field(default_factory=dict[str, Any])
    question: str | None = None
    """The user's question as readable text, or None if there is none."""
    start_ms: int = 0
    parent_run: str = ""
    has_tenant_record: bool = False
    """Whether the record of the run names the tenant."""
    policy: str = "continue"
    """What happens when the run has no followers."""
    page_key: str = ""


_PLACE = ["order"]
_DECODER = msgspec.json.Decoder(NewRun)


def encode_run(run: NewRun, keys: KeyRing | None = None) -> bytes:
    """Return a run as JSON, encrypted if there are keys.

    Raises:
        RequestError: If the request contains a value that JSON cannot express.
    """
    try:
        data = msgspec.json.encode(run)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise RequestError(f"The request cannot be queued: {error}", 101) from error
    return data if keys is None else keys.encrypt(run_domain(run.envelope.message_id), _PLACE, data)


def decode_run(data: bytes, run_id: str = "", keys: KeyRing | None = None) -> NewRun:
    """Return a stored run.

    Raises:
        StreamError: If it cannot be read, for example because a newer version has written it.
    """
    try:
        if keys is not None:
            data = keys.decrypt(run_domain(run_id), _PLACE, data)
        require_plain(data)
        run = _DECODER.decode(data)
    except (msgspec.MsgspecError, RecursionError, SessionKeyError) as error:
        raise StreamError(f"A run in the queue cannot be read: {error}") from error
    if not isinstance(run.request.get("inputs") or {}, dict):
        raise StreamError("A run in the queue cannot be read: its inputs are not an object")
    return run
