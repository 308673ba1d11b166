"""Replay of a recording in place of models, the network, MCP servers, datasets and keys."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ragflow_lg.adapters.recording.cassette import (
    DateLine,
    ExchangeLine,
    ModelLine,
    SeedLine,
    ServerLine,
    ToolsLine,
    read_cassette,
)
from ragflow_lg.adapters.recording.cassette_requests import chat_request, differences, digest, is_same
from ragflow_lg.adapters.recording.exchanges import CHAT, A, Exchange, describe_model, read_pieces
from ragflow_lg.adapters.recording.wrapped_services import wrap_services
from ragflow_lg.base.errors import CassetteError, ServiceError, SettingsError
from ragflow_lg.dsl.redaction import REDACTED, Redactor
from ragflow_lg.services.chat import ChatDelta, ChatModel, ChatModels, ChatRequest
from ragflow_lg.services.services import Caller, Clock, Files, Ids, Services
from ragflow_lg.services.tool_policies import CrawlerRules, ToolPolicies, ToolServer, ToolSettings

MAX_COMPARED = 500
MAX_PROBLEMS = 100


class _Track:
    """The exchanges of one kind, by node, and those among them that have been replayed."""

    def __init__(self, lines: Iterable[tuple[int, ExchangeLine]]) -> None:
        self.lines = sorted(lines, key=lambda entry: entry[1].order)
        self.used: set[int] = set()
        self._by_node: dict[str, list[int]] = {}
        self._by_request: dict[tuple[str, str], list[int]] = {}
        for index, (_, line) in enumerate(self.lines):
            self._by_node.setdefault(line.node, []).append(index)
            self._by_request.setdefault((line.node, digest(line.request)), []).append(index)

    def next_line(self, caller: Caller, request: dict[str, Any], *, is_loose: bool) -> ExchangeLine | None:
        """Return the next unused exchange for a request, or None if there is no such exchange."""
        for candidates in self._candidates(caller, request, is_loose=is_loose):
            unused = [index for index in candidates if index not in self.used]
            at_position = [index for index in unused if self.lines[index][1].position == caller.position]
            if unused:
                index = (at_position or unused)[0]
                self.used.add(index)
                return self.lines[index][1]
        return None

    def _candidates(self, caller: Caller, request: dict[str, Any], *, is_loose: bool) -> Iterator[list[int]]:
        yield self._by_request.get((caller.node, digest(request)), [])
        of_node = self._by_node.get(caller.node, [])
        yield [index for index in of_node if is_same(self.lines[index][1].request, request)]
        if is_loose:
            yield of_node

    def count(self, caller: Caller, request: dict[str, Any]) -> int:
        """Return how many times the node made the same request."""
        return len(self._by_request.get((caller.node, digest(request)), []))

    def nearest(self, caller: Caller, request: dict[str, Any]) -> tuple[int, ExchangeLine, str] | None:
        """Return the line number of the most similar request, its line, and a description of the differences."""
        indexes = self._by_node.get(caller.node) or range(len(self.lines))
        ranked = [
            (*differences(self.lines[index][1].request, request), index in self.used, index)
            for index in indexes[:MAX_COMPARED]
        ]
        if not ranked:
            return None
        _, description, _, index = min(ranked, key=lambda entry: (entry[0], entry[2], entry[3]))
        number, line = self.lines[index]
        return number, line, description


class _NoService:
    """A placeholder for the service that a player replaces."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"a player does not call services, but {name!r} was read")


_NO_SERVICE: Any = _NoService()


class Player:
    """Replays a recording.

    In strict mode, a request must equal a recorded request from the same node. Each recorded answer is used once, in
    request order, starting with answers from the same round and call. In loose mode, a request without an equal one
    gets its node's next answer.

    Attributes:
        problems: Failed requests, including ones whose error the canvas handled.
    """

    def __init__(self, path: Path, redactor: Redactor, *, is_loose: bool = False) -> None:
        """Read the file.

        Raises:
            CassetteError: if it cannot be read or is damaged.
        """
        self.path = path
        self.problems: list[str] = []
        self.redactor = redactor
        self._is_loose = is_loose
        lines = read_cassette(path)
        exchanges = [(number, line) for number, line in lines if isinstance(line, ExchangeLine)]
        self._tracks = {
            service: _Track(entry for entry in exchanges if entry[1].service == service)
            for service in {line.service for _, line in exchanges}
        }
        self._servers = {(line.server, line.tool): line for _, line in lines if isinstance(line, ServerLine)}
        self._models = {line.llm_id: line for _, line in lines if isinstance(line, ModelLine)}
        self._dates = deque(line.value for _, line in lines if isinstance(line, DateLine))
        self._seeds = deque(line.value for _, line in lines if isinstance(line, SeedLine))
        tools = next((line for _, line in lines if isinstance(line, ToolsLine)), ToolsLine())
        keys = dict.fromkeys(tools.keys, REDACTED)
        self._tools = ToolSettings(tools.endpoints, keys, CrawlerRules(tools.obeys_robots, user_agent=tools.user_agent))

    @property
    def unused(self) -> int:
        """The number of recorded exchanges that have not been replayed."""
        return sum(len(track.lines) - len(track.used) for track in self._tracks.values())

    def services(
        self,
        files: Files,
        clock: Clock,
        ids: Ids,
        policies: ToolPolicies,
        prompts: Mapping[str, str] | None = None,
        **others: Any,
    ) -> Services:
        """Return services with the answers, dates and seeds from the recording.

        ``others`` are services that are not recorded, by name.
        """
        servers: dict[str, ToolServer] = {id_: _NO_SERVICE for id_, tool in self._servers if tool is not None}
        services = Services(
            _NO_SERVICE,
            _NO_SERVICE,
            files,
            clock,
            ids,
            self._tools,
            policies,
            servers=servers,
            knowledge=_NO_SERVICE,
            prompts=prompts or {},
            **others,
        )
        return wrap_services(self, services)

    async def exchange(
        self, kind: Exchange[A], caller: Caller, request: dict[str, Any], call_service: Callable[[], Awaitable[A]]
    ) -> A:
        """Return the recorded answer to a request.

        Raises:
            CassetteError: if no such request was recorded.
            ServiceError: if the recorded request failed or has no answer.
            SettingsError: if it failed because of a setting.
            TimeoutError: if it timed out.
        """
        line = self._find_line(kind, caller, request)
        await asyncio.sleep(0)
        line.raise_failure()
        if line.answer is None:
            raise ServiceError("The recording has no answer to this request.")
        return kind.decode(line.answer)

    async def stream(
        self, caller: Caller, llm_id: str, request: ChatRequest, model: ChatModel
    ) -> AsyncIterator[ChatDelta]:
        """Yield the recorded pieces of a model's answer. Raise the errors of `exchange`."""
        line = self._find_line(CHAT, caller, chat_request(llm_id, request, self.redactor))
        for piece in read_pieces(CHAT.decode(line.answer or [])):
            await asyncio.sleep(0)
            yield piece
        line.raise_failure()

    def find_model(self, caller: Caller, llm_id: str, models: ChatModels) -> ModelLine:
        """Return the recorded properties of a model.

        Raises:
            SettingsError: if the model was not available.
            CassetteError: if it was not recorded.
        """
        line = self._models.get(llm_id)
        if line is None and self._is_loose:
            line = next((other for other in self._models.values() if not other.error), None)
        if line is None:
            recorded = ", ".join(map(repr, self._models)) or "none"
            raise self._problem(
                f"Node {caller.node!r} uses {describe_model(llm_id)}, which was not recorded. Recorded: {recorded}."
            )
        if line.error:
            raise SettingsError(line.error)
        return line

    def find_server(self, id_: str, servers: Mapping[str, ToolServer]) -> ToolServer:
        """Return a server for any id, so that `check_tool` can report a server that was not recorded.

        Raises:
            KeyError: if the server was missing in the recorded run.
        """
        if (id_, None) in self._servers:
            raise KeyError(id_)
        return _NO_SERVICE

    def check_tool(self, caller: Caller, server_id: str, tool: str, server: ToolServer) -> None:
        """Check whether a tool of a server was permitted.

        Raises:
            SettingsError: if it was not permitted.
            CassetteError: if that was not recorded.
        """
        line = self._servers.get((server_id, tool))
        if line is not None and line.error:
            raise SettingsError(line.error)
        names = [f"{name!r} of {id_!r}" for id_, name in self._servers if name is not None]
        if line is None and not (self._is_loose and names):
            recorded = ", ".join(names) or "none"
            raise self._problem(
                f"Node {caller.node!r} uses the tool {tool!r} of the MCP server {server_id!r}, which was not recorded. "
                f"Recorded: {recorded}."
            )

    def local_time(self, clock: Clock) -> str:
        """Return the next recorded local time; after the last one, the clock's time."""
        return self._dates.popleft() if self._dates else clock.local_time()

    def seed(self, ids: Ids) -> int:
        """Return the next recorded seed; after the last one, a new one."""
        return self._seeds.popleft() if self._seeds else ids.seed()

    def _find_line(self, kind: Exchange[Any], caller: Caller, request: dict[str, Any]) -> ExchangeLine:
        track = self._tracks.get(kind.service, _Track(()))
        line = track.next_line(caller, request, is_loose=self._is_loose)
        if line is not None:
            return line
        position = f" (round or call {caller.position})" if caller.position else ""
        subject = f"Node {caller.node!r}{position}: this request ({kind.describe(request)})"
        if count := track.count(caller, request):
            raise self._problem(f"{subject} was made more often than recorded ({count}).")
        nearest = track.nearest(caller, request)
        if nearest is None:
            raise self._problem(f"{subject} was not recorded; the recording has no request of this kind.")
        number, line, description = nearest
        node = "" if line.node == caller.node else f" of {line.node!r}"
        raise self._problem(
            f"{subject} was not recorded; the nearest recorded request{node} (line {number}) differs: {description}."
        )

    def _problem(self, text: str) -> CassetteError:
        text = f"{text} Record again with --record {self.path}"
        text += "." if self._is_loose else ", or match by order with --replay-mode loose."
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(text)
        return CassetteError(text)
