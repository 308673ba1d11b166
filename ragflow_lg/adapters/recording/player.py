"""Replay of a recording in place of models, the network, MCP servers, datasets and keys."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ragflow_lg.adapters.recording.cassette import Line, read_cassette
from ragflow_lg.adapters.recording.requests import describe_request, differences, digest, is_same, write_request
from ragflow_lg.adapters.recording.taped_services import Call, tape_services
from ragflow_lg.base.errors import CassetteError, ServiceError
from ragflow_lg.component.integration import recorded_protocols
from ragflow_lg.dsl.redaction import Redactor
from ragflow_lg.services.chat import ChatDelta
from ragflow_lg.services.services import Caller, Clock, Files, Ids, Services
from ragflow_lg.services.tool_policies import ToolPolicies, ToolSettings

MAX_COMPARED = 500
MAX_PROBLEMS = 100
_NO_SERVICE: Any = object()
"""Stands for a service that a player replaces."""


class _Track:
    """The exchanges of one kind, by node, and those among them that have been replayed."""

    def __init__(self, lines: Iterable[tuple[int, Line]]) -> None:
        self.lines = sorted(lines, key=lambda entry: entry[1].order)
        self.used: set[int] = set()
        self._by_node: dict[str, list[int]] = {}
        self._by_request: dict[tuple[str, str], list[int]] = {}
        for index, (_, line) in enumerate(self.lines):
            self._by_node.setdefault(line.node, []).append(index)
            self._by_request.setdefault((line.node, digest(line.request)), []).append(index)

    def next_line(self, caller: Caller, request: dict[str, Any], *, is_loose: bool) -> Line | None:
        """Return the next unused exchange for a request, or None if there is no such exchange."""
        equal = self._by_request.get((caller.node, digest(request)), ())
        candidates = [index for index in equal if index not in self.used]
        if not candidates:
            unused = [index for index in self._by_node.get(caller.node, ()) if index not in self.used]
            candidates = [index for index in unused if is_same(self.lines[index][1].request, request)]
            candidates = candidates or (unused if is_loose else [])
        if not candidates:
            return None
        at_position = [index for index in candidates if self.lines[index][1].position == caller.position]
        index = (at_position or candidates)[0]
        self.used.add(index)
        return self.lines[index][1]

    def count(self, caller: Caller, request: dict[str, Any]) -> int:
        """Return how many times the node made the same request."""
        return sum(is_same(self.lines[index][1].request, request) for index in self._by_node.get(caller.node, ()))

    def nearest(self, caller: Caller, request: dict[str, Any]) -> tuple[int, Line, str] | None:
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


class Player:
    """Replays a recording.

    In strict mode, a request must equal a recorded request from the same node. Each recorded answer is used once, in
    request order, starting with answers from the same round and call. In loose mode, a request without an equal one
    gets its node's next answer. Any node gets facts, any number of times.

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
        self._redactor = redactor
        self._is_loose = is_loose
        lines = read_cassette(path)
        exchanges = [entry for entry in lines if not entry[1].is_fact]
        self._tracks = {
            call: _Track(entry for entry in exchanges if entry[1].call == call)
            for call in {line.call for _, line in exchanges}
        }
        self._facts: dict[str, list[Line]] = {}
        for _, line in lines:
            if line.is_fact:
                self._facts.setdefault(line.call, []).append(line)

    @property
    def unused(self) -> int:
        """The number of recorded answers that have not been replayed."""
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
        """Return services for `wrap`. ``others`` are services that are not recorded, by name."""
        return Services(
            _NO_SERVICE,
            _NO_SERVICE,
            files,
            clock,
            ids,
            self._decode("tools", self.once("tools", dict[str, Any]), ToolSettings),
            policies,
            prompts=prompts or {},
            integrations=dict.fromkeys(recorded_protocols(), _NO_SERVICE),
            is_demo="is_demo" in self._facts,
            **others,
        )

    def wrap(self, services: Services) -> Services:
        """Return services with the answers, dates and seeds from the recording."""
        return tape_services(self, services)

    async def exchange(self, call: Call, read: Callable[[], Awaitable[Any]]) -> Any:
        """Return the recorded answer to a request.

        Raises:
            CassetteError: if no such request was recorded.
            ServiceError: if the recorded request failed or has no answer.
            SettingsError: if it failed because of a setting.
            TimeoutError: if it timed out.
        """
        line = self._find_line(call)
        await asyncio.sleep(0)
        line.raise_failure()
        if line.answer is None:
            raise ServiceError("The recording has no answer to this request.")
        answer = self._decode(call.name, line.answer, call.answer)
        if self._is_loose and call.name == "knowledge.datasets":  # perhaps under other names
            return dict(zip(call.arguments["names_or_ids"], answer.values(), strict=False))
        return answer

    async def stream(self, call: Call, read: Callable[[], AsyncIterator[Any]]) -> AsyncIterator[Any]:
        """Yield the recorded pieces of a model's answer. Raise the errors of `exchange`."""
        line = self._find_line(call)
        pieces: list[str | ChatDelta] = self._decode(call.name, line.answer or [], list[str | ChatDelta])
        for piece in pieces:
            await asyncio.sleep(0)
            yield ChatDelta(piece) if isinstance(piece, str) else piece
        line.raise_failure()

    def fact(self, call: Call, read: Callable[[], Any]) -> Any:
        """Return a recorded value. Raise the errors of `exchange`."""
        request = write_request(call.name, call.arguments, self._redactor)
        lines = self._facts.get(call.name, [])
        line = next((line for line in lines if is_same(line.request, request)), None)
        if line is None and self._is_loose:
            line = next((line for line in lines if line.error is None), None)
        if line is None:
            recorded = ", ".join(describe_request(call.name, line.request) for line in lines) or "none"
            shown = describe_request(call.name, request)
            raise self._problem(f"Node {call.caller.node!r}: {shown} was not recorded. Recorded: {recorded}.")
        line.raise_failure()
        return self._decode(call.name, line.answer, call.answer)

    def once(self, name: str, read: Callable[[], Any]) -> Any:
        """Return the next recorded value; after the last one, that of the service."""
        lines = self._facts.get(name)
        return lines.pop(0).answer if lines else read()

    def _decode(self, call: str, answer: Any, kind: Any) -> Any:
        try:
            return msgspec.convert(answer, kind)
        except msgspec.ValidationError as error:
            raise CassetteError(f"The recording has a damaged answer ({call}): {error}.") from None

    def _find_line(self, call: Call) -> Line:
        caller, request = call.caller, write_request(call.name, call.arguments, self._redactor)
        track = self._tracks.get(call.name, _Track(()))
        line = track.next_line(caller, request, is_loose=self._is_loose)
        if line is not None:
            return line
        position = f" (round or call {caller.position})" if caller.position else ""
        subject = f"Node {caller.node!r}{position}: {describe_request(call.name, request)}"
        if count := track.count(caller, request):
            raise self._problem(f"{subject} was requested more often than recorded ({count}).")
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
