"""An OpenAI-compatible server on a loopback socket, for tests of the real client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any


@dataclass
class Answer:
    """One answer of the server."""

    pieces: Sequence[str] = ("ok",)
    reasoning: Sequence[str] = ()
    status: int = 200
    body: Any = None
    """The whole body, in place of a completion; text is sent as it is."""
    delay_s: float = 0.0
    piece_delay_s: float = 0.0
    break_after: int | None = None
    """Cut the connection after so many pieces."""
    error_after: int | None = None
    """Send an error event after so many pieces."""
    calls: Sequence[Mapping[str, Any]] = ()
    """Tool calls behind the pieces, as OpenAI writes them."""
    fragment_chars: int = 5
    """Length of the pieces in which arguments are streamed."""
    usage: Mapping[str, int] | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass
class Received:
    """A request that came in."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass
class OpenAIServer:
    """Gives its answers in order, the last one for ever. Use it as ``async with``."""

    answers: list[Answer] = field(default_factory=lambda: [Answer()])
    requests: list[Received] = field(default_factory=list[Received])
    was_asked: asyncio.Event = field(default_factory=asyncio.Event)
    was_cut: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the client cut the connection while an answer was on its way."""
    _server: asyncio.Server | None = None

    async def __aenter__(self) -> OpenAIServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()

    @property
    def base_url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in head[1:] if line)}
            body = json.loads(await reader.readexactly(int(headers.get("content-length", "0"))))
            self.requests.append(Received(head[0].split()[1], headers, body))
            self.was_asked.set()
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            await asyncio.sleep(answer.delay_s)
            if answer.status != 200 or answer.body is not None or not body.get("stream"):
                self._send_whole(writer, answer)
            else:
                await self._send_pieces(writer, answer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            self.was_cut.set()
        finally:
            writer.close()

    def _send_whole(self, writer: asyncio.StreamWriter, answer: Answer) -> None:
        message: dict[str, Any] = {
            "role": "assistant",
            "content": "".join(answer.pieces),
            "reasoning_content": "".join(answer.reasoning),
        }
        if answer.calls:
            message["tool_calls"] = [{"type": "function", **call} for call in answer.calls]
        completion: dict[str, Any] = {
            "id": "c",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        }
        if answer.usage:
            completion["usage"] = dict(answer.usage)
        body = completion if answer.body is None else answer.body
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        head = f"HTTP/1.1 {answer.status} X\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in answer.headers.items())
        writer.write(f"{head}Connection: close\r\n\r\n".encode() + data)

    async def _send_pieces(self, writer: asyncio.StreamWriter, answer: Answer) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n")
        writer.write(b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n")
        deltas: list[dict[str, Any]] = [{"reasoning_content": r} for r in answer.reasoning]
        deltas += [{"content": p} for p in answer.pieces]
        deltas += [{"tool_calls": [piece]} for piece in _fragments(answer)]
        for index, delta in enumerate(deltas):
            if index == answer.break_after:
                return
            if index == answer.error_after:
                self._event(writer, {"error": {"message": "the model fell over", "type": "server_error"}})
                break
            self._event(writer, _chunk(delta, None))
            await writer.drain()
            await asyncio.sleep(answer.piece_delay_s)
        self._event(writer, _chunk({}, "stop"))
        if answer.usage:
            self._event(writer, {**_chunk({}, None), "choices": [], "usage": dict(answer.usage)})
        self._event(writer, "[DONE]")
        writer.write(b"0\r\n\r\n")

    def _event(self, writer: asyncio.StreamWriter, data: Any) -> None:
        text = f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()
        writer.write(f"{len(text):x}\r\n".encode() + text + b"\r\n")


def _chunk(delta: dict[str, str], finish_reason: str | None) -> dict[str, Any]:
    return {
        "id": "c",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
    }


def _fragments(answer: Answer) -> Iterator[dict[str, Any]]:
    """Give the pieces of the calls: id and name with the first, the arguments bit by bit."""
    for number, call in enumerate(answer.calls):
        function = call["function"]
        text, size = function["arguments"], answer.fragment_chars
        index = call.get("index", number)
        first = {"name": function["name"], "arguments": text[:size]}
        yield {"index": index, "id": call["id"], "type": "function", "function": first}
        for at in range(size, len(text), size):
            yield {"index": index, "function": {"arguments": text[at : at + size]}}
