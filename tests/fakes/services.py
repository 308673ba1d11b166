"""Deterministic services: a fixed clock, counted ids, scripted models and HTTP answers, files by name."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from ragflow_lg.adapters.system_services import inline_bytes
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.base.ids import RunId
from ragflow_lg.services.chat import ONE_CALL, AnswerEnd, ChatAnswer, ChatDelta, ChatRequest, ToolCall, Usage
from ragflow_lg.services.http import HttpRequest, HttpResponse
from ragflow_lg.services.knowledge import Knowledge
from ragflow_lg.services.memories import Memories
from ragflow_lg.services.services import FileContent, Services
from ragflow_lg.services.tool_policies import ToolServers
from tests.fakes.memories import FakeMemories


class FixedClock:
    """A clock that does not advance."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self._now = now
        self.local = "2026-01-02 03:04:05"

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._now

    def local_time(self) -> str:
        return self.local


class MovingClock(FixedClock):
    """A clock that a test moves."""

    def move(self, seconds: float) -> None:
        self._now += seconds


class CountedIds:
    """Run ids 1, 2, 3 … and one seed for all turns; seed 0 always selects the first alternative."""

    def __init__(self, seed: int = 0) -> None:
        self._count = 0
        self._seed = seed

    def run_id(self) -> RunId:
        self._count += 1
        return RunId(f"{self._count:032x}")

    def seed(self) -> int:
        return self._seed


@dataclass
class Reply:
    """One scripted answer. ``match`` must occur in the system prompt or the last message.

    With an ``error`` the call fails, after the pieces if it streams; a reply that ``hangs`` never ends.
    """

    text: str = ""
    chunks: Sequence[str] | None = None
    match: str = ""
    repeat: bool = False
    error: str = ""
    calls: Sequence[Mapping[str, Any]] = ()
    """Tool calls: ``name``, ``arguments`` (a map, or a text that is sent unchanged), ``id``."""
    reasoning: str = ""
    hangs: bool = False
    pause_s: float = 0.0
    """Pause after each streamed piece."""
    usage: Usage = ONE_CALL
    end: AnswerEnd = ""


@dataclass
class ScriptedModel:
    """A chat model that returns scripted replies and records its requests."""

    replies: list[Reply] = field(default_factory=list[Reply])
    requests: list[tuple[bool, ChatRequest]] = field(default_factory=list[tuple[bool, ChatRequest]])
    """Whether the answer was streamed, and the request."""
    context_tokens: int = 8192
    has_vision: bool = False
    has_tools: bool = True
    has_schemas: bool = False
    piece_chars: int = 8
    call_count: int = 0
    is_hanging: bool = False

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        reply = self._next(request, is_streaming=False)
        if reply.hangs:
            await self._hang()
        if reply.error:
            raise ServiceError(reply.error)
        text = "".join(reply.chunks) if reply.chunks is not None else reply.text
        return ChatAnswer(text, self._calls(reply), reply.usage, reply.end)

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        reply = self._next(request, is_streaming=True)
        size = self.piece_chars
        pieces = reply.chunks
        if pieces is None and reply.error:
            pieces = []
        if pieces is None:
            pieces = [reply.text[i : i + size] for i in range(0, len(reply.text), size)]
        if reply.reasoning:
            yield ChatDelta(reply.reasoning, is_thinking=True)
        for piece in pieces:
            yield ChatDelta(piece)
            if reply.pause_s:
                await asyncio.sleep(reply.pause_s)
        if reply.hangs:
            await self._hang()
        if reply.error:
            raise ServiceError(reply.error)
        yield ChatDelta("", calls=self._calls(reply), usage=reply.usage, end=reply.end)

    async def _hang(self) -> None:
        self.is_hanging = True
        await asyncio.Event().wait()

    def _calls(self, reply: Reply) -> tuple[ToolCall, ...]:
        calls: list[ToolCall] = []
        for call in reply.calls:
            self.call_count += 1
            arguments = call["arguments"]
            text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
            calls.append(ToolCall(call.get("id") or f"call_{self.call_count}", call["name"], text))
        return tuple(calls)

    def _next(self, request: ChatRequest, *, is_streaming: bool) -> Reply:
        self.requests.append((is_streaming, request))
        haystack = request.system + "\n" + ((request.messages[-1]["content"] or "") if request.messages else "")
        for index, reply in enumerate(self.replies):
            if reply.match in haystack:
                if not reply.repeat:
                    del self.replies[index]
                return reply
        return Reply("[no scripted reply]")


@dataclass
class OneModel:
    """A provider of the same model for every ``llm_id``; one that starts with ``notools@`` has no tool calls."""

    chat: ScriptedModel = field(default_factory=ScriptedModel)

    def model(self, llm_id: str) -> ScriptedModel:
        self.chat.has_tools = not llm_id.startswith("notools@")
        return self.chat


@dataclass
class ScriptedHttp:
    """An HTTP client with scripted answers by URL that records its requests."""

    answers: Mapping[str, HttpResponse | Exception] = field(default_factory=dict[str, HttpResponse | Exception])
    requests: list[HttpRequest] = field(default_factory=list[HttpRequest])

    async def send(self, request: HttpRequest) -> HttpResponse:
        self.requests.append(request)
        answer = self.answers.get(request.url, HttpResponse(404, {}, "no route", request.url))
        if isinstance(answer, Exception):
            raise answer
        return answer


class NamedFiles:
    """A file reader that returns ``[parsed NAME]`` for a file and an image unchanged."""

    async def read(self, files: Sequence[Any]) -> list[str]:
        return [f if isinstance(f, str) else f"[parsed {f.get('name', '?')}]" for f in files]

    async def load(self, file: Any) -> FileContent | None:
        return inline_bytes(file)


def _of_server(name: str) -> Any:
    def call(servers: Any, server: str, *arguments: Any) -> Any:
        return getattr(servers[server], name)(*arguments)

    return call


class FakeServers:
    """Tool servers, such as `tests.fakes.mcp_servers.FakeServer`, by id."""

    def __init__(self, servers: Mapping[str, Any]) -> None:
        self._servers = servers

    def __getitem__(self, server: str) -> Any:
        if server not in self._servers:
            raise SettingsError(f'There is no MCP server {server!r} in the settings. Add [mcp."{server}"].')
        return self._servers[server]

    check, call, list_tools = map(_of_server, ("check", "call", "list_tools"))

    def serves(self, server: str) -> bool:
        return server in self._servers

    async def find_tool(self, server: str, tool: str) -> list[Any]:
        """Know nothing of a tool, as of those of MCP servers."""
        return []


def fake_services(**replacements: Any) -> Services:
    """Return fake services; ``replacements`` replaces some by name. ``servers`` are tool servers by id."""
    servers: Any = replacements.pop("servers", {})
    if (knowledge := replacements.pop("knowledge", None)) is not None:
        replacements["integrations"] = {Knowledge: knowledge, **replacements.get("integrations", {})}
    parts: dict[str, Any] = {
        "models": OneModel(),
        "http": ScriptedHttp(),
        "files": NamedFiles(),
        "clock": FixedClock(),
        "ids": CountedIds(),
        **replacements,
    }
    memories = parts.pop("memories", None) or FakeMemories()
    tool_servers = FakeServers(cast("dict[str, Any]", servers)) if isinstance(servers, dict) else servers
    parts["integrations"] = {ToolServers: tool_servers, Memories: memories, **parts.get("integrations", {})}
    return Services(**parts)
