"""Options for a streamed turn: event ids, the position to resume at, and the disconnect policy."""

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

IDS_HEADER = "x-ragflow-event-ids"
DISCONNECT_HEADER = "x-ragflow-on-disconnect"

T = TypeVar("T")


class StreamPosition(Struct, frozen=True):
    """The position at which a client resumes a stream, and whether it receives event ids."""

    has_ids: bool = False
    run_id: str = ""
    """The run to resume; ``""`` for a new run."""
    after: int = 0
    """The number of the last event that the client has received; 0 for none."""


def read_position(request: Request) -> StreamPosition:
    """Read ``Last-Event-ID``, ``?run_id=`` with ``?from=``, and `X-RAGFlow-Event-Ids`.

    Raises:
        StreamPositionError: if they do not name a position in a run.
    """
    query = request.query_params
    run_id, after = parse_event_position(
        request.headers.get("last-event-id"), query.get("from"), query.get("run_id", "")
    )
    return StreamPosition(bool(run_id) or parse_flag(request.headers.get(IDS_HEADER)), run_id, after)


def read_disconnect_policy(request: Request, field: Any = None) -> DisconnectPolicy | None:
    """Read the policy for a client that disconnects: from a body field, or else from the header.

    Raises:
        RequestError: if the value is not a policy.
    """
    text: Any = request.headers.get(DISCONNECT_HEADER) if field is None else field
    if text is None:
        return None
    try:
        return parse_policy(str(text))
    except SettingsError as error:
        raise RequestError(str(error), 101) from None


async def await_while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Await work for a response, and cancel it if the client disconnects. The request must already have been read.

    Raises:
        ClientDisconnect: if the client has disconnected.
    """
    work_task = asyncio.create_task(work)
    disconnect_task = asyncio.create_task(wait_for_disconnect(request.receive))
    try:
        await asyncio.wait({work_task, disconnect_task}, return_when=asyncio.FIRST_COMPLETED)
        if not work_task.done():
            raise ClientDisconnect
        return work_task.result()
    finally:
        await end_task(work_task)
        await end_task(disconnect_task)
