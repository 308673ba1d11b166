"""An ASGI app around a function that answers calls, with the faults that every service can have."""

import asyncio
import json
import logging
import socket
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, cast
from urllib.parse import parse_qsl

import uvicorn

Fault = Literal["", "busy", "page", "page_200", "slow", "cut"]
"""What goes wrong: a rate limit, an HTML page with status 502 or 200, no answer in time, or a body that is cut off."""

PAGE = "<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body><h1>Bad Gateway</h1></body></html>"


@dataclass(frozen=True)
class Call:
    """A request. The names of headers are in lower case."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        value: Any = json.loads(self.body)
        assert isinstance(value, dict)
        return cast("dict[str, Any]", value)


@dataclass(frozen=True)
class Answer:
    """A response; a body that is not text is sent as JSON."""

    body: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    kind: str = "application/json"


@dataclass
class ServiceStub:
    """The app. ``busy`` is the service's answer to too many requests; ``fault`` affects the next ``faults`` calls."""

    handle: Callable[[Call], Answer]
    busy: Answer
    fault: Fault = ""
    faults: int = 1_000
    received: list[Call] = field(default_factory=list[Call])

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        call = await read_call(scope, receive)
        self.received.append(call)
        fault = self.fault if self.faults > 0 else ""
        self.faults -= bool(fault)
        if fault == "slow":
            await asyncio.sleep(30)
        answer = {
            "busy": self.busy,
            "page": Answer(PAGE, 502, kind="text/html"),
            "page_200": Answer(PAGE, kind="text/html"),
        }.get(fault) or self.handle(call)
        await _send(send, answer, is_cut=fault == "cut")


async def read_call(scope: Any, receive: Any) -> Call:
    """Return the request of an ASGI call."""
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    headers = {name.decode().lower(): value.decode("latin-1") for name, value in scope["headers"]}
    query = dict(parse_qsl(scope["query_string"].decode(), keep_blank_values=True))
    return Call(scope["method"], scope["path"], query, headers, body)


async def _send(send: Any, answer: Answer, *, is_cut: bool) -> None:
    body = (answer.body if isinstance(answer.body, str) else json.dumps(answer.body, ensure_ascii=False)).encode()
    headers = {"content-type": answer.kind, "content-length": str(len(body)), **answer.headers}
    start = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": start})
    if is_cut:
        await send({"type": "http.response.body", "body": body[: len(body) // 2], "more_body": True})
        raise ConnectionAbortedError("the body is cut off")
    await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def serving(app: Any) -> AsyncGenerator[str]:
    """Serve an app on a free port of 127.0.0.1; yield its host and port. The end waits for nobody."""
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # a body that is cut off is intended
    server = uvicorn.Server(uvicorn.Config(app, http="h11", lifespan="off", log_config=None, ws="none"))
    server.config.load()
    server.lifespan = server.config.lifespan_class(server.config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await server.startup(sockets=[listener])
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:  # `Server.shutdown` sleeps for 0.1 s
            for each in server.servers:
                each.close()
            for connection in list(server.server_state.connections):
                connection.transport.close()
            tasks = list(server.server_state.tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
