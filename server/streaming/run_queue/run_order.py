"""What a server asks a worker to play: a run by its ids, and the request that it answers."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from ragflow_lg.base.errors import RequestError, SessionKeyError, StreamError
from ragflow_lg.checkpoints.key_ring import KeyRing, require_plain, run_domain
from ragflow_lg.runs.wire.wire_events import Envelope


class RunOrder(Struct, frozen=True, omit_defaults=True):
    """A run that waits for a worker. Fields that a newer version adds are ignored."""

    envelope: Envelope
    tenant: str
    agent_id: str
    intent: Literal["start", "resume", "continue"]
    request: dict[str, Any] = field(default_factory=dict[str, Any])
    question: str | None = None
    start_ms: int = 0
    parent_run: str = ""
    has_tenant_record: bool = False
    """Whether the record of the run names the tenant."""
    policy: str = "continue"
    page_key: str = ""
    request_hash: str = ""


_PLACE = ["order"]
_DECODER = msgspec.json.Decoder(RunOrder)


def encode_order(order: RunOrder, keys: KeyRing | None = None) -> bytes:
    """Return an order as JSON, encrypted if there are keys.

    Raises:
        RequestError: If the request contains a value that JSON cannot express.
    """
    try:
        data = msgspec.json.encode(order)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise RequestError(f"The request cannot be queued: {error}", 101) from error
    return data if keys is None else keys.encrypt(run_domain(order.envelope.message_id), _PLACE, data)


def decode_order(data: bytes, run_id: str = "", keys: KeyRing | None = None) -> RunOrder:
    """Return the stored order of a run.

    Raises:
        StreamError: If it cannot be read, for example because a newer version has written it.
    """
    try:
        if keys is not None:
            data = keys.decrypt(run_domain(run_id), _PLACE, data)
        require_plain(data)
        order = _DECODER.decode(data)
    except (msgspec.MsgspecError, RecursionError, SessionKeyError) as error:
        raise StreamError(f"An order in the queue cannot be read: {error}") from error
    if not isinstance(order.request.get("inputs") or {}, dict):
        raise StreamError("An order in the queue cannot be read: its inputs are not an object")
    return order
