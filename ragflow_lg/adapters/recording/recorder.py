"""Recording of everything that a run requests from services, and of their answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from ragflow_lg.adapters.recording.cassette import CassetteWriter, Failure, Line
from ragflow_lg.adapters.recording.requests import write_request
from ragflow_lg.adapters.recording.taped_services import Call, tape_services
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.component.integration import recorded_protocols
from ragflow_lg.dsl.redaction import REDACTED, Redactor, is_secret_name
from ragflow_lg.services.chat import ChatDelta
from ragflow_lg.services.http import HttpResponse
from ragflow_lg.services.knowledge import Metadata
from ragflow_lg.services.memories import MemoryResult
from ragflow_lg.services.services import Services

_FAILURES = (ServiceError, SettingsError, TimeoutError)
"""Errors that are recorded. After other errors a call counts as stopped."""


class Recorder:
    """Records services. Removes the secrets that the redactor knows or detects."""

    def __init__(self, writer: CassetteWriter, redactor: Redactor) -> None:
        self._redactor = redactor
        self._writer = writer
        self._order = 0
        self._facts: list[Line] = []

    def wrap(self, services: Services) -> Services:
        """Return services that behave the same and are recorded."""
        tools = services.tools
        for key in tools.keys.values():
            self._redactor.learn(key)
        endpoints = {name: self._redactor.text(url) for name, url in tools.endpoints.items()}
        shown = replace(tools, endpoints=endpoints, keys=dict.fromkeys(tools.keys, REDACTED))
        self.once("tools", lambda: shown)
        if services.is_demo:
            self.once("is_demo", lambda: True)
        return tape_services(self, services)

    async def exchange(self, call: Call, read: Callable[[], Awaitable[Any]]) -> Any:
        """Call a service and record the answer, even if it fails or the caller stops waiting."""
        line, result = self._begin(call), dict[str, Any](is_stopped=True)
        try:
            answer = await read()
            result = {"answer": self._answer(call.name, answer)}
            return answer
        except _FAILURES as error:
            result = {"error": Failure.of(error, self._redactor)}
            raise
        finally:
            self._writer.write(replace(line, **result))

    async def stream(self, call: Call, read: Callable[[], AsyncIterator[Any]]) -> AsyncIterator[Any]:
        """Yield the pieces of a model's answer and record them, even if the stream fails or is stopped."""
        line, result = self._begin(call), dict[str, Any](is_stopped=True)
        deltas: list[ChatDelta] = []
        pieces = read()
        try:
            async for delta in pieces:
                deltas.append(delta)
                yield delta
            result = {}
        except _FAILURES as error:
            result = {"error": Failure.of(error, self._redactor)}
            raise
        finally:
            self._writer.write(replace(line, answer=_clean_pieces(deltas, self._redactor), **result))
            if isinstance(pieces, AsyncGenerator):
                await pieces.aclose()

    def fact(self, call: Call, read: Callable[[], Any]) -> Any:
        """Return a value, and record it once."""
        request = write_request(call.name, call.arguments, self._redactor)
        line = Line(call=call.name, is_fact=True, request=request)
        try:
            answer = read()
            line = replace(line, answer=self._answer(call.name, answer))
            return answer
        except _FAILURES as error:
            line = replace(line, error=Failure.of(error, self._redactor))
            raise
        finally:
            if line not in self._facts:
                self._facts.append(line)
                self._writer.write(line)

    def once(self, name: str, read: Callable[[], Any]) -> Any:
        """Return a value, and record it."""
        value = read()
        self._writer.write(Line(call=name, is_fact=True, answer=self._answer(name, value)))
        return value

    def _begin(self, call: Call) -> Line:
        """Count a call. Return its line so far."""
        self._order += 1
        request = write_request(call.name, call.arguments, self._redactor)
        node, position = call.caller
        return Line(call=call.name, order=self._order, node=node, position=position, request=request)

    def _answer(self, name: str, answer: Any) -> Any:
        """Return an answer as JSON without secrets, of which what a service said may contain more."""
        redactor = self._redactor
        if isinstance(answer, HttpResponse):
            answer = answer._replace(content=b"")
        if name == "knowledge.metadata":
            return _clean_metadata(answer, redactor)
        value = msgspec.to_builtins(answer, enc_hook=str)
        if isinstance(answer, MemoryResult):
            return {**value, "entries": [{**one, "content": redactor.text(one["content"])} for one in value["entries"]]}
        if name.startswith(("http", *recorded_protocols().values())):
            redactor.learn_from(value)
        return value if name == "tools" else redactor.value(value)


def _clean_pieces(deltas: Sequence[ChatDelta], redactor: Redactor) -> list[str | ChatDelta]:
    """Return pieces without secrets, even if these extend over several pieces. A mere text stands for its piece."""
    texts = [delta.text for delta in deltas]
    for is_thinking in (False, True):
        chosen = [i for i, delta in enumerate(deltas) if delta.is_thinking is is_thinking]
        for index, text in zip(chosen, redactor.pieces([texts[i] for i in chosen]), strict=True):
            texts[index] = text
    pieces: list[str | ChatDelta] = []
    for delta, text in zip(deltas, texts, strict=True):
        calls = tuple(call._replace(arguments=redactor.text(call.arguments)) for call in delta.calls)
        piece = delta._replace(text=text, calls=calls)
        pieces.append(text if piece == ChatDelta(text) else piece)
    return pieces


def _clean_metadata(metadata: Metadata, redactor: Redactor) -> dict[str, dict[str, list[str]]]:
    """Return metadata. If a key's name suggests a secret, its values are removed, which are keys themselves."""
    cleaned: dict[str, dict[str, list[str]]] = {}
    for key, values in metadata.items():
        entry = cleaned.setdefault(redactor.text(key), {})
        for value, ids in values.items():
            text = REDACTED if is_secret_name(key) else redactor.text(value)
            entry.setdefault(text, []).extend(map(redactor.text, ids))
    return cleaned
