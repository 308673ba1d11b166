"""What a client asks for beside the turn: ids of events, where to go on, what becomes of the run if it leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct
from starlette.requests import ClientDisconnect

from ragflow_lg.base.errors import RequestError, SettingsError
from ragflow_lg.server.http.shared.event_stream import wait_for_disconnect
from ragflow_lg.server.http.shared.request_parsing import parse_flag
from ragflow_lg.server.streaming import parse_policy
from ragflow_lg.server.streaming.positions import parse_event_position
from ragflow_lg.server.streaming.task_cancellation import end_task

if TYPE_CHECKING:
    from starlette.requests import Request

    from ragflow_lg.server.streaming import DisconnectPolicy

__all__ = [
    "DISCONNECT_HEADER",
    "IDS_HEADER",
    "StreamPosition",
    "await_while_connected",
    "read_disconnect_policy",
    "read_position",
]

IDS_HEADER = "x-ragflow-event-ids"
DISCONNECT_HEADER = "x-ragflow-on-disconnect"

T = TypeVar("T")


class StreamPosition(Struct, frozen=True):
    """Where a client goes on, and whether it is told the ids of events."""

    has_ids: bool = False
    run_id: str = ""
    """The run that it has been following; ``""`` where it begins a new one."""
    after: int = 0
    """The last event that it has."""


def read_position(request: Request) -> StreamPosition:
    """Read ``Last-Event-ID``, ``?run_id=`` with ``?from=``, and the header that asks for ids.

    Raises:
        StreamPositionError: if they are no place in a run.
    """
    query = request.query_params
    run_id, after = parse_event_position(
        request.headers.get("last-event-id"), query.get("from"), query.get("run_id", "")
    )
    return StreamPosition(bool(run_id) or parse_flag(request.headers.get(IDS_HEADER)), run_id, after)


def read_disconnect_policy(request: Request, given: Any = None) -> DisconnectPolicy | None:
    """Read what becomes of the run if the client leaves: from a field of the body, or else the header.

    Raises:
        RequestError: if it is no policy.
    """
    text: Any = request.headers.get(DISCONNECT_HEADER) if given is None else given
    if text is None:
        return None
    try:
        return parse_policy(str(text))
    except SettingsError as error:
        raise RequestError(str(error), 101) from None


async def await_while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Do what an answer is made of; break it off once its client has gone. The request has to have been read.

    Raises:
        ClientDisconnect: if the client has gone.
    """
    working = asyncio.create_task(work)
    leaving = asyncio.create_task(wait_for_disconnect(request.receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        await end_task(working)
        await end_task(leaving)
