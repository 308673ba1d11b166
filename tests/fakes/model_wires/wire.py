"""An ASGI app that answers a model's calls in one API, whole or streamed, with the faults of real servers."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from tests.fakes.tool_stubs.stub import Call, read_call, serving


class Reply(NamedTuple):
    """A model's answer. ``calls`` are tool calls: id, name, arguments."""

    text: tuple[str, ...] = ("Hel", "lo")
    thinking: str = ""
    calls: tuple[tuple[str, str, dict[str, Any]], ...] = ()
    tokens: tuple[int, int] = (7, 5)
    reason: str = ""
    """Why the answer ends, in the API's own word; ``""`` for the usual one."""


class Fault(NamedTuple):
    """A refusal with a status; ``cut`` is a stream that ends early without an error."""

    status: int = 200
    headers: Mapping[str, str] = {}
    cut: bool = False
    pause_s: float = 0.0


class Wire(Protocol):
    """One API. Functions raise AssertionError for requests that the service would refuse."""

    def check(self, call: Call) -> None:
        """Check path, headers and fields of a request."""
        ...

    def is_streamed(self, call: Call) -> bool:
        """Return whether the answer is streamed."""
        ...

    def whole(self, reply: Reply) -> Any:
        """Return a whole answer as JSON."""
        ...

    def stream(self, reply: Reply) -> tuple[str, Sequence[bytes]]:
        """Return the content type and the events of a streamed answer."""
        ...

    def refusal(self, status: int, message: str) -> tuple[Mapping[str, str], Any]:
        """Return the headers and the body of a refusal."""
        ...

    def vectors(self, call: Call) -> Any:
        """Return the answer to a request for embeddings, or None for other requests."""
        ...


@dataclass
class WireStub:
    """The app. It gives its replies in order and repeats the last one; faults come first."""

    wire: Wire
    replies: list[Reply] = field(default_factory=lambda: [Reply()])
    faults: list[Fault] = field(default_factory=list[Fault])
    reason: str = "not now"
    """What refusals say."""
    received: list[Call] = field(default_factory=list[Call])
    problems: list[str] = field(default_factory=list[str])
    lost: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client has left before the end of an answer."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        call = await read_call(scope, receive)
        self.received.append(call)
        try:
            self.wire.check(call)
        except AssertionError as error:
            self.problems.append(f"{call.path}: {error}")
            await self._refuse(send, 400, f"invalid: {error}", {})
            return
        fault = self.faults.pop(0) if self.faults else Fault()
        if fault.status != 200:
            await self._refuse(send, fault.status, self.reason, fault.headers)
            return
        if (vectors := self.wire.vectors(call)) is not None:
            await _send(send, 200, {}, json.dumps(vectors).encode())
            return
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if not self.wire.is_streamed(call):
            await asyncio.sleep(fault.pause_s)
            await _send(send, 200, {}, json.dumps(self.wire.whole(reply)).encode())
            return
        kind, events = self.wire.stream(reply)
        await self._stream(receive, send, kind, events[:-2] if fault.cut else events, fault.pause_s)

    async def _refuse(self, send: Any, status: int, message: str, headers: Mapping[str, str]) -> None:
        own, body = self.wire.refusal(status, message)
        await _send(send, status, {**own, **headers}, json.dumps(body).encode())

    async def _stream(self, receive: Any, send: Any, kind: str, events: Sequence[bytes], pause_s: float) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind.encode())]})
        leaving = asyncio.create_task(_wait_for_end(receive))
        for event in events:
            await send({"type": "http.response.body", "body": event, "more_body": True})
            await asyncio.wait({leaving}, timeout=pause_s)
            if leaving.done():
                self.lost.set()
                return
        leaving.cancel()
        await send({"type": "http.response.body", "body": b""})


async def _wait_for_end(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send(send: Any, status: int, headers: Mapping[str, str], body: bytes) -> None:
    pairs = {"content-type": "application/json", "content-length": str(len(body)), **headers}
    encoded = [(name.encode(), value.encode()) for name, value in pairs.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def serving_wire(
    wire: Wire, *replies: Reply, faults: Sequence[Fault] = ()
) -> AsyncGenerator[tuple[WireStub, str]]:
    """Serve a stub on a free port; yield it and its address."""
    stub = WireStub(wire, list(replies) or [Reply()], list(faults))
    async with serving(stub) as host:
        yield stub, f"http://{host}"


def sse(event: Mapping[str, Any], name: str = "") -> bytes:
    """Return a server-sent event."""
    return (f"event: {name}\n" if name else "").encode() + f"data: {json.dumps(event)}\n\n".encode()


def require_fields(value: Mapping[str, Any], required: str, optional: str = "") -> None:
    """Check the names of fields: all that are required and no unknown ones."""
    names, known = set(value), {*required.split(), *optional.split()}
    assert set(required.split()) <= names, f"missing {set(required.split()) - names}"
    assert names <= known, f"unknown {names - known}"
