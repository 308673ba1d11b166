"""The web application of the mock server, and running it on a socket."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import Struct, field
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.portability import on_stop_signals
from ragflow_lg.dsl.redaction import Redactor
from ragflow_lg.integrations.mock_model.audio import build_speech, build_transcript
from ragflow_lg.integrations.mock_model.mock_llm_wire import Answer, build_answer, build_error
from ragflow_lg.integrations.mock_model.scripts import MockRequest, Script, parse_request
from ragflow_lg.server.http.edge.uvicorn_server import QuietServer, get_url

if TYPE_CHECKING:
    import socket

    from starlette.types import ASGIApp, Receive, Scope, Send

    from ragflow_lg.integrations.mock_model.rules import AudioReply, Rules


_MAX_CHARS = 200

_ROUTES = "POST /v1/chat/completions, POST /v1/audio/speech, POST /v1/audio/transcriptions and GET /v1/models"

MAX_BODY_BYTES = 64 * 1024 * 1024


class Exchange(Struct):
    """A request and its outcome. ``rule`` and ``reply`` are counted from 1; they are 0 if no rule has answered."""

    number: int
    method: str
    path: str
    headers: Mapping[str, str]
    body: Any = None
    """The JSON value, or None."""
    request: MockRequest | None = None
    rule: int = 0
    reply: int = 0
    status: int = 0
    pieces: int = 0
    """Number of pieces that were sent."""
    problem: str = ""
    end: Literal["", "done", "cut", "left"] = ""
    """``cut`` by the rules, ``left`` by the client, or ``""`` while it runs."""
    began_s: float = field(default_factory=time.monotonic)


Listener: TypeAlias = Callable[[Exchange], None]
"""Called twice for each exchange: after the request has been read, and at the end."""


class _Mock:
    """The routes."""

    def __init__(self, rules: Rules, listen: Listener) -> None:
        self.rules = rules
        self.listen = listen
        self.script = Script(rules)
        self.speech = _with_last_repeated(rules.audio.speech)
        self.transcriptions = _with_last_repeated(rules.audio.transcriptions)
        self.count = 0

    def begin(self, request: Request) -> Exchange:
        self.count += 1
        return Exchange(self.count, request.method, request.url.path, request.headers)

    async def post(self, request: Request) -> Response:
        exchange = self.begin(request)
        answers = {"completions": self.complete, "speech": self.speak, "transcriptions": self.transcribe}
        try:
            return self.answer(exchange, await answers[exchange.path.rpartition("/")[2]](request, exchange))
        except ServiceError as error:
            return self.refuse(exchange, 400, str(error))

    async def complete(self, request: Request, exchange: Exchange) -> Answer:
        exchange.body = await _read_json(request)
        exchange.request = parse_request(exchange.body)
        choice = self.script.choose(exchange.request)
        exchange.rule, exchange.reply = choice.rule, choice.number
        return build_answer(choice.reply, exchange.request, exchange.number)

    async def speak(self, request: Request, exchange: Exchange) -> Answer:
        reply = next(self.speech)
        exchange.body = await _read_json(request)
        return build_speech(reply, exchange.body)

    async def transcribe(self, request: Request, exchange: Exchange) -> Answer:
        reply = next(self.transcriptions)
        async with request.form(max_files=1, max_part_size=MAX_BODY_BYTES) as form:
            exchange.body = {key: str(value) for key, value in form.items() if key != "file"}
            return build_transcript(reply, form)

    async def list_models(self, request: Request) -> Response:
        rows = [{"id": n, "object": "model", "created": 0, "owned_by": "mock"} for n in self.rules.model_names]
        body = json.dumps({"object": "list", "data": rows}).encode()
        return self.answer(self.begin(request), Answer(200, "application/json", (body,), length=len(body)))

    async def refuse_path(self, request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        route = f"{request.method} {request.url.path}"
        message = f"There is no route {route}; the routes are {_ROUTES}."
        return self.refuse(self.begin(request), status, message)

    def refuse(self, exchange: Exchange, status: int, message: str) -> Response:
        exchange.problem = message
        return self.answer(exchange, build_error(status, message))

    def answer(self, exchange: Exchange, answer: Answer) -> Response:
        exchange.status = answer.status
        self.listen(exchange)
        return _PacedResponse(answer, exchange, self.listen)


def _with_last_repeated(replies: list[AudioReply]) -> Iterator[AudioReply]:
    return chain(replies, repeat(replies[-1]))


async def _read_json(request: Request) -> Any:
    body = bytearray()
    try:
        async for piece in request.stream():
            body += piece
            if len(body) > MAX_BODY_BYTES:
                raise ServiceError(f"The body is larger than {MAX_BODY_BYTES:,} bytes.")
        return json.loads(body)
    except ClientDisconnect:
        raise ServiceError("The client disconnected before its request was complete.") from None
    except (ValueError, RecursionError) as error:
        raise ServiceError(f"The body is not JSON: {error}.") from None


class _PacedResponse(Response):
    """A response that sends an answer with delays until the answer is complete or cut, or the client disconnects."""

    def __init__(self, answer: Answer, exchange: Exchange, listen: Listener) -> None:
        super().__init__(status_code=answer.status)
        self._answer = answer
        self._exchange = exchange
        self._listen = listen

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.create_task(self._send(send))
        leaving = asyncio.create_task(_wait_for_disconnect(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            is_sent = sending.done() and sending.exception() is None
        finally:
            sending.cancel()
            leaving.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)
        self._exchange.end = "left" if not is_sent else "cut" if self._answer.is_cut else "done"
        self._listen(self._exchange)

    async def _send(self, send: Send) -> None:
        answer = self._answer
        await asyncio.sleep(answer.delay_s)
        headers = {"content-type": answer.content_type, **{n.lower(): v for n, v in answer.headers.items()}}
        if answer.length is not None:
            headers["content-length"] = str(answer.length)
        pairs = [
            (name.encode("latin-1", "replace"), value.encode("latin-1", "replace")) for name, value in headers.items()
        ]
        await send({"type": "http.response.start", "status": answer.status, "headers": pairs})
        for index, piece in enumerate(answer.pieces):
            if index and answer.piece_delay_s:
                await asyncio.sleep(answer.piece_delay_s)
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            self._exchange.pieces += 1
        if answer.is_cut:
            # The server closes the connection of an incomplete response after sending what was written.
            return
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def mock_app(rules: Rules, listen: Listener = lambda exchange: None) -> Starlette:
    """Return the ASGI application."""
    mock = _Mock(rules, listen)
    posts = ("/v1/chat/completions", "/v1/audio/speech", "/v1/audio/transcriptions")
    return Starlette(
        routes=[
            *(Route(path, mock.post, methods=["POST"]) for path in posts),
            Route("/v1/models", mock.list_models, methods=["GET"]),
        ],
        exception_handlers={HTTPException: mock.refuse_path},
    )


class RequestLog:
    """A listener that writes a line at the end of every exchange.

    The line contains a shortened version of the last user message, but no headers or bodies.
    """

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._redactor = Redactor()

    def __call__(self, exchange: Exchange) -> None:
        """Log the end of an exchange."""
        if exchange.end:
            self._write(json.dumps(self._row(exchange), ensure_ascii=False) + "\n")

    def _row(self, exchange: Exchange) -> dict[str, Any]:
        row: dict[str, Any] = {
            "request": exchange.number,
            "method": exchange.method,
            "path": self._redactor.text(exchange.path),
        }
        if (request := exchange.request) is not None:
            user = self._redactor.text(request.user)
            row |= {
                "model": request.model,
                "stream": request.is_stream,
                "tools": list(request.tools),
                "last_role": request.last_role,
                "user": user if len(user) <= _MAX_CHARS else user[: _MAX_CHARS - 1] + "…",
            }
        if exchange.rule:
            row |= {"rule": exchange.rule, "reply": exchange.reply}
        if exchange.problem:
            row["problem"] = self._redactor.text(exchange.problem)
        row |= {"status": exchange.status, "pieces": exchange.pieces, "end": exchange.end}
        return {**row, "elapsed_ms": round((time.monotonic() - exchange.began_s) * 1000)}


async def serve(app: ASGIApp, listener: socket.socket, announce: Callable[[str], object]) -> None:
    """Serve until SIGINT or SIGTERM, then stop without completing responses. Call ``announce`` with the URL."""
    stop, _ = on_stop_signals()
    async with start_mock_server(app, listener) as url:
        announce(url)
        await stop.wait()


@asynccontextmanager
async def start_mock_server(app: ASGIApp, listener: socket.socket) -> AsyncGenerator[str]:
    """Serve inside the context, and yield the URL for ``base_url`` of clients; then end without waiting for them."""
    server = QuietServer(app, http="h11")
    running = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield f"{get_url(listener)}/v1"
    finally:
        server.should_exit = server.force_exit = True
        await running
        for connection in list(server.server_state.connections):
            connection.transport.close()
        tasks = list(server.server_state.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
