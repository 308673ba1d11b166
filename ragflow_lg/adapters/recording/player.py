"""Answering from a recording, without a model, a network, a server of tools, datasets or a key."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from ragflow_lg.adapters.recording.cassette import (
    CallLine,
    ChatLine,
    DatasetsLine,
    DateLine,
    HttpLine,
    MetadataLine,
    ModelLine,
    PieceRecord,
    SearchLine,
    SeedLine,
    ServerLine,
    ToolsLine,
    read_cassette,
)
from ragflow_lg.adapters.recording.cassette_requests import (
    call_request,
    chat_request,
    differences,
    digest,
    http_request,
    is_same,
)
from ragflow_lg.adapters.recording.knowledge_replaying import ReplayedKnowledge
from ragflow_lg.base.errors import CassetteError, ServiceError, SettingsError
from ragflow_lg.base.ids import RunId
from ragflow_lg.dsl.redaction import REDACTED, Redactor
from ragflow_lg.services.chat import NO_USAGE, ChatAnswer, ChatDelta, ChatModel, ChatRequest, ToolCall, Usage
from ragflow_lg.services.http import HttpRequest, HttpResponse
from ragflow_lg.services.services import Caller, Clock, Files, Ids, Services
from ragflow_lg.services.tool_policies import ToolPolicies
from ragflow_lg.services.tool_server import ServerAnswer, ToolServer, ToolSettings

__all__ = ["Player"]

MAX_COMPARED = 500
MAX_PROBLEMS = 100

L = TypeVar("L", ChatLine, HttpLine, CallLine, DatasetsLine, SearchLine, MetadataLine)


class _Tracks(Generic[L]):
    """The exchanges of one kind, by node, and which of them have been given."""

    def __init__(self, lines: Iterable[tuple[int, L]]) -> None:
        self.lines = sorted(lines, key=lambda entry: entry[1].order)
        self.given: set[int] = set()
        self._by_node: dict[str, list[int]] = {}
        self._by_request: dict[tuple[str, str], list[int]] = {}
        for index, (_, line) in enumerate(self.lines):
            self._by_node.setdefault(line.node, []).append(index)
            self._by_request.setdefault((line.node, digest(line.request)), []).append(index)

    def take(self, caller: Caller, request: dict[str, Any], *, is_loose: bool) -> L | None:
        """Give the next exchange for a request, None if there is none."""
        for found in self._candidates(caller, request, is_loose=is_loose):
            left = [index for index in found if index not in self.given]
            here = [index for index in left if self.lines[index][1].position == caller.position]
            if left:
                index = (here or left)[0]
                self.given.add(index)
                return self.lines[index][1]
        return None

    def _candidates(self, caller: Caller, request: dict[str, Any], *, is_loose: bool) -> Iterator[list[int]]:
        yield self._by_request.get((caller.node, digest(request)), [])
        of_node = self._by_node.get(caller.node, [])
        yield [index for index in of_node if is_same(self.lines[index][1].request, request)]
        if is_loose:
            yield of_node

    def count(self, caller: Caller, request: dict[str, Any]) -> int:
        """Tell how often the node asked the same."""
        return len(self._by_request.get((caller.node, digest(request)), []))

    def nearest(self, caller: Caller, request: dict[str, Any]) -> tuple[int, L, str] | None:
        """Give the recorded request that differs least, its line number, and how it differs."""
        indexes = self._by_node.get(caller.node) or range(len(self.lines))
        found = [
            (*differences(self.lines[index][1].request, request), index in self.given, index)
            for index in indexes[:MAX_COMPARED]
        ]
        if not found:
            return None
        _, told, _, index = min(found, key=lambda entry: (entry[0], entry[2], entry[3]))
        number, line = self.lines[index]
        return number, line, told


class Player:
    """A recording that answers. ``problems`` holds what was asked in vain, also where a canvas has caught the error.

    Strict, a request has to be one that the same node made; each recorded answer is given once, in the order of the
    requests, those of the same round and call first. Loose, a request that differs gets the next answer of its node.
    """

    def __init__(self, path: Path, redactor: Redactor, *, is_loose: bool = False) -> None:
        """Read the file.

        Raises:
            CassetteError: if it cannot be read or is damaged.
        """
        self.path = path
        self.problems: list[str] = []
        self._is_loose = is_loose
        self._redactor = redactor
        lines = read_cassette(path)
        self._chats = _Tracks([(n, line) for n, line in lines if isinstance(line, ChatLine)])
        self._https = _Tracks([(n, line) for n, line in lines if isinstance(line, HttpLine)])
        self._calls = _Tracks([(n, line) for n, line in lines if isinstance(line, CallLine)])
        self._datasets = _Tracks([(n, line) for n, line in lines if isinstance(line, DatasetsLine)])
        self._searches = _Tracks([(n, line) for n, line in lines if isinstance(line, SearchLine)])
        self._metadata = _Tracks([(n, line) for n, line in lines if isinstance(line, MetadataLine)])
        self._servers = {(line.server, line.tool): line for _, line in lines if isinstance(line, ServerLine)}
        self._models = {line.llm_id: line for _, line in lines if isinstance(line, ModelLine)}
        self._dates = deque(line.value for _, line in lines if isinstance(line, DateLine))
        self._seeds = deque(line.value for _, line in lines if isinstance(line, SeedLine))
        tools = next((line for _, line in lines if isinstance(line, ToolsLine)), ToolsLine())
        self._tools = ToolSettings(tools.endpoints, dict.fromkeys(tools.keys, REDACTED))

    @property
    def unused(self) -> int:
        """How many recorded exchanges nobody has asked for."""
        tracks = (self._chats, self._https, self._calls, self._datasets, self._searches, self._metadata)
        return sum(len(kind.lines) - len(kind.given) for kind in tracks)

    def services(self, files: Files, clock: Clock, ids: Ids, policies: ToolPolicies) -> Services:
        """Give services that answer from the recording; dates and seeds come from it too."""
        clock, ids = _Clock(clock, self._dates), _Ids(ids, self._seeds)

        def for_caller(caller: Caller) -> Services:
            models, http = _Models(self, caller), _Http(self, caller)
            servers, knowledge = _Servers(self, caller), ReplayedKnowledge(self, caller, self._redactor)

            def inside(inner: Caller) -> Services:
                return for_caller(inner.within(caller))

            return Services(models, http, files, clock, ids, self._tools, policies, inside, servers, knowledge)

        return for_caller(Caller())

    def model(self, llm_id: str, caller: Caller) -> ChatModel:
        """Give a model as it was recorded.

        Raises:
            SettingsError: if there was none.
            CassetteError: if nobody asked for it.
        """
        line = self._models.get(llm_id)
        if line is None and self._is_loose:
            line = next((known for known in self._models.values() if not known.error), None)
        if line is None:
            recorded = ", ".join(map(repr, self._models)) or "none"
            raise self._problem(f"Node {caller.node!r} asks for {_named(llm_id)}; recorded are: {recorded}.")
        if line.error:
            raise SettingsError(line.error)
        return _Chat(self, caller, llm_id, line)

    def chat(self, caller: Caller, llm_id: str, request: ChatRequest) -> ChatLine:
        """Give the recorded call of a model."""
        return self._found(self._chats, caller, chat_request(llm_id, request, self._redactor), _named(llm_id))

    def http(self, caller: Caller, request: HttpRequest) -> HttpLine:
        """Give the recorded HTTP request."""
        asked = http_request(request, self._redactor)
        return self._found(self._https, caller, asked, f"{asked['method']} {asked.get('url', '')}")

    @property
    def servers(self) -> list[str]:
        """The ids of the servers of tools that were asked for and there."""
        return list(dict.fromkeys(server for server, tool in self._servers if tool is not None))

    def has_server(self, server: str) -> bool:
        """Tell whether there may have been such a server: nobody asked for it, or it was there."""
        return (server, None) not in self._servers

    def check(self, caller: Caller, server: str, tool: str) -> None:
        """Say what kept a canvas from calling a tool of a server.

        Raises:
            SettingsError: if something did.
            CassetteError: if nobody asked.
        """
        line = self._servers.get((server, tool))
        if line is not None and line.error:
            raise SettingsError(line.error)
        if line is None and not (self._is_loose and self.servers):
            recorded = ", ".join(f"{tool!r} of {server!r}" for server, tool in self._servers if tool) or "none"
            what = f"Node {caller.node!r} asks for the tool {tool!r} of the MCP server {server!r}"
            raise self._problem(f"{what}; recorded are: {recorded}.")

    def call(self, caller: Caller, server: str, tool: str, arguments: Mapping[str, Any]) -> CallLine:
        """Give the recorded call of a tool of a server."""
        asked = call_request(server, tool, arguments, self._redactor)
        return self._found(self._calls, caller, asked, f"the tool {tool!r} of the MCP server {server!r}")

    def datasets(self, caller: Caller, request: dict[str, Any]) -> DatasetsLine:
        """Give the recorded look for datasets."""
        return self._found(self._datasets, caller, request, "for datasets")

    def search(self, caller: Caller, request: dict[str, Any]) -> SearchLine:
        """Give the recorded search."""
        return self._found(self._searches, caller, request, "the datasets")

    def metadata(self, caller: Caller, request: dict[str, Any]) -> MetadataLine:
        """Give the recorded metadata."""
        return self._found(self._metadata, caller, request, "for the metadata of datasets")

    def _found(self, tracks: _Tracks[L], caller: Caller, request: dict[str, Any], what: str) -> L:
        line = tracks.take(caller, request, is_loose=self._is_loose)
        if line is not None:
            return line
        where = f"Node {caller.node!r}" + (f" (round or call {caller.position})" if caller.position else "")
        if count := tracks.count(caller, request):
            raise self._problem(f"{where} asks {what} the same once more than the {count} times that were recorded.")
        nearest = tracks.nearest(caller, request)
        told = "nothing of the kind was recorded"
        if nearest is not None:
            number, line, differing = nearest
            whose = "" if line.node == caller.node else f" of {line.node!r}"
            told = f"the nearest recorded request{whose} (line {number}) differs: {differing}"
        raise self._problem(f"{where} asks {what} something that was not recorded; {told}.")

    def _problem(self, text: str) -> CassetteError:
        text = f"{text} Record again with --record {self.path}"
        text += "." if self._is_loose else ", or match by order with --replay-mode loose."
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(text)
        return CassetteError(text)


def _named(llm_id: str) -> str:
    return f"the model {llm_id!r}" if llm_id else "the default model"


def _delta(piece: str | PieceRecord) -> ChatDelta:
    if isinstance(piece, str):
        return ChatDelta(piece)
    usage = Usage(*piece.usage) if piece.usage is not None else None
    return ChatDelta(piece.text, piece.is_thinking, tuple(ToolCall(*call) for call in piece.calls), usage)


class _Models:
    def __init__(self, replay: Player, caller: Caller) -> None:
        self._replay = replay
        self._caller = caller

    def model(self, llm_id: str) -> ChatModel:
        return self._replay.model(llm_id, self._caller)


class _Chat:
    def __init__(self, replay: Player, caller: Caller, llm_id: str, about: ModelLine) -> None:
        self._replay = replay
        self._caller = caller
        self._llm_id = llm_id
        self.context_tokens = about.context_tokens
        self.has_vision = about.has_vision
        self.has_tools = about.has_tools
        self.has_schemas = about.has_schemas

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        line = self._replay.chat(self._caller, self._llm_id, request)
        await asyncio.sleep(0)
        line.raise_failure()
        deltas = [_delta(piece) for piece in line.pieces]
        text = "".join(delta.text for delta in deltas if not delta.is_thinking)
        calls = next((delta.calls for delta in reversed(deltas) if delta.calls), ())
        usage = NO_USAGE
        for delta in deltas:
            usage = usage.plus(delta.usage or NO_USAGE)
        return ChatAnswer(text, calls, usage)

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        line = self._replay.chat(self._caller, self._llm_id, request)
        for piece in line.pieces:
            await asyncio.sleep(0)
            yield _delta(piece)
        line.raise_failure()


class _Http:
    def __init__(self, replay: Player, caller: Caller) -> None:
        self._replay = replay
        self._caller = caller

    async def send(self, request: HttpRequest) -> HttpResponse:
        line = self._replay.http(self._caller, request)
        await asyncio.sleep(0)
        line.raise_failure()
        response = line.response
        if response is None:
            raise ServiceError("The recording has no answer to this request.")
        return HttpResponse(response.status, response.headers, response.text, response.url)


class _Servers(Mapping[str, ToolServer]):
    """Every server that is asked for, so that a recording without it can say so."""

    def __init__(self, replay: Player, caller: Caller) -> None:
        self._replay = replay
        self._caller = caller

    def __getitem__(self, id_: str) -> ToolServer:
        if not self._replay.has_server(id_):
            raise KeyError(id_)
        return _Server(self._replay, self._caller, id_)

    def __iter__(self) -> Iterator[str]:
        return iter(self._replay.servers)

    def __len__(self) -> int:
        return len(self._replay.servers)


class _Server:
    def __init__(self, replay: Player, caller: Caller, id_: str) -> None:
        self._replay = replay
        self._caller = caller
        self._id = id_

    def check(self, tool: str) -> None:
        self._replay.check(self._caller, self._id, tool)

    async def call(self, tool: str, arguments: Mapping[str, Any], headers: Mapping[str, str]) -> ServerAnswer:
        line = self._replay.call(self._caller, self._id, tool, arguments)
        await asyncio.sleep(0)
        if line.timeout_s is not None:
            raise TimeoutError(line.timeout_s)
        line.raise_failure()
        answer = line.answer
        if answer is None:
            raise ServiceError("The recording has no answer to this call.")
        return ServerAnswer(tuple(answer.texts), tuple(answer.others), answer.structured, answer.is_error)


class _Clock:
    def __init__(self, clock: Clock, dates: deque[str]) -> None:
        self._clock = clock
        self._dates = dates
        self.now = clock.now
        self.monotonic = clock.monotonic

    def local_time(self) -> str:
        return self._dates.popleft() if self._dates else self._clock.local_time()


class _Ids:
    def __init__(self, ids: Ids, seeds: deque[int]) -> None:
        self._ids = ids
        self._seeds = seeds

    def run_id(self) -> RunId:
        return self._ids.run_id()

    def seed(self) -> int:
        return self._seeds.popleft() if self._seeds else self._ids.seed()
