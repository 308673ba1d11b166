"""Recording what a run asks of models, HTTP servers, servers of tools and datasets, and what they answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from ragflow_lg.adapters.recording.cassette import (
    CallLine,
    CassetteWriter,
    ChatLine,
    DateLine,
    FailureRecord,
    HttpLine,
    ModelLine,
    PieceRecord,
    ResponseRecord,
    SeedLine,
    ServerAnswerRecord,
    ServerLine,
    ToolsLine,
    bounded_number,
)
from ragflow_lg.adapters.recording.cassette_requests import call_request, chat_request, http_request
from ragflow_lg.adapters.recording.knowledge_recording import RecordedKnowledge
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.base.ids import RunId
from ragflow_lg.dsl.redaction import REDACTED, Redactor, is_secret_name
from ragflow_lg.services.chat import ChatAnswer, ChatDelta, ChatModel, ChatModels, ChatRequest, ToolCall, Usage
from ragflow_lg.services.http import HttpClient, HttpRequest, HttpResponse
from ragflow_lg.services.services import Caller, Clock, Ids, Services
from ragflow_lg.services.tool_server import ServerAnswer, ToolServer

__all__ = ["Recorder"]


class Recorder:
    """Wraps services so that their traffic is written down, without the secrets that the redactor knows or finds."""

    def __init__(self, writer: CassetteWriter, redactor: Redactor) -> None:
        self._writer = writer
        self._redactor = redactor
        self._order = 0
        self._models: set[str] = set()
        self._servers: set[ServerLine] = set()

    def wrap(self, services: Services) -> Services:
        """Give services that do the same and are recorded."""
        tools = services.tools
        if tools.endpoints or tools.keys:
            for key in tools.keys.values():
                self._redactor.learn(key)
            endpoints = {name: self._redactor.text(url) for name, url in tools.endpoints.items()}
            self._writer.write(ToolsLine(endpoints=endpoints, keys=sorted(tools.keys)))

        def for_caller(caller: Caller) -> Services:
            models, http = _Models(services.models, self, caller), _Http(services.http, self, caller)
            servers = _Servers(services.servers, self, caller)

            def inside(inner: Caller) -> Services:
                return for_caller(inner.within(caller))

            given = replace(recorded, models=models, http=http, servers=servers, for_caller=inside)
            if services.knowledge is None:
                return given
            write = self._writer.write
            return replace(
                given, knowledge=RecordedKnowledge(services.knowledge, caller, self._redactor, self.begin, write)
            )

        clock, ids = _Clock(services.clock, self._writer), _Ids(services.ids, self._writer)
        recorded = replace(services, clock=clock, ids=ids)
        return for_caller(Caller())

    def begin(self) -> int:
        """Give the number of the request that is made now."""
        self._order += 1
        return self._order

    def model(self, llm_id: str, model: ChatModel | None, error: str = "") -> None:
        """Write down what a model can do, once."""
        if llm_id in self._models:
            return
        self._models.add(llm_id)
        if model is None:
            self._writer.write(ModelLine(llm_id=llm_id, error=self._redactor.text(error)))
            return
        line = ModelLine(
            llm_id=llm_id,
            context_tokens=int(bounded_number(model.context_tokens)),
            has_vision=model.has_vision,
            has_tools=model.has_tools,
            has_schemas=model.has_schemas,
        )
        self._writer.write(line)

    def server(self, server: str, tool: str | None = None, error: str = "") -> None:
        """Write down that a tool of a server may be called, or why not, once; without a tool: there is no server."""
        line = ServerLine(server=server, tool=tool, error=self._redactor.text(error))
        if line not in self._servers:
            self._servers.add(line)
            self._writer.write(line)

    def request(self, llm_id: str, request: ChatRequest) -> dict[str, Any]:
        """Write a call of a model as it is recorded."""
        return chat_request(llm_id, request, self._redactor)

    def chat(
        self,
        order: int,
        caller: Caller,
        request: dict[str, Any],
        deltas: Sequence[ChatDelta],
        error: ServiceError | None,
        *,
        is_stopped: bool,
    ) -> None:
        """Write a call of a model down."""
        self._writer.write(
            ChatLine(
                order=order,
                node=caller.node,
                position=caller.position,
                request=request,
                pieces=self._pieces(deltas),
                error=FailureRecord.of(error, self._redactor),
                is_stopped=is_stopped,
            )
        )

    async def http(self, client: HttpClient, caller: Caller, request: HttpRequest) -> HttpResponse:
        """Send a request and write it down."""
        order, asked = self.begin(), http_request(request, self._redactor)
        answers: list[HttpResponse] = []
        failure: ServiceError | None = None
        try:
            answers.append(await client.send(request))
            return answers[0]
        except ServiceError as error:
            failure = error
            raise
        finally:
            is_stopped = not answers and failure is None
            response = self._response(answers[0]) if answers else None
            self._writer.write(
                HttpLine(
                    order=order,
                    node=caller.node,
                    position=caller.position,
                    request=asked,
                    response=response,
                    error=FailureRecord.of(failure, self._redactor),
                    is_stopped=is_stopped,
                )
            )

    async def call(
        self,
        called: ToolServer,
        caller: Caller,
        server: str,
        tool: str,
        given: Mapping[str, Any],
        own: Mapping[str, str],
    ) -> ServerAnswer:
        """Call a tool of a server and write it down, but for the headers."""
        self._redactor.learn_from(own)
        order, asked = self.begin(), call_request(server, tool, given, self._redactor)
        answers: list[ServerAnswer] = []
        failure: ServiceError | SettingsError | TimeoutError | None = None
        try:
            answers.append(await called.call(tool, given, own))
            return answers[0]
        except (ServiceError, SettingsError, TimeoutError) as error:
            failure = error
            raise
        finally:
            self._writer.write(
                CallLine(
                    order=order,
                    node=caller.node,
                    position=caller.position,
                    request=asked,
                    answer=self._answer(answers[0]) if answers else None,
                    error=None if isinstance(failure, TimeoutError) else FailureRecord.of(failure, self._redactor),
                    timeout_s=bounded_number(_limit(failure)) if isinstance(failure, TimeoutError) else None,
                    is_stopped=not answers and failure is None,
                )
            )

    def _answer(self, answer: ServerAnswer) -> ServerAnswerRecord:
        redactor = self._redactor
        redactor.learn_from([*answer.texts, answer.structured])
        return ServerAnswerRecord(
            texts=[redactor.text(text) for text in answer.texts],
            others=[redactor.text(kind) for kind in answer.others],
            structured=redactor.value(answer.structured),
            is_error=answer.is_error,
        )

    def _response(self, answer: HttpResponse) -> ResponseRecord:
        redactor = self._redactor
        redactor.learn_from(answer.text)
        headers = {n: REDACTED if is_secret_name(n) else redactor.text(v) for n, v in answer.headers.items()}
        return ResponseRecord(
            status=answer.status, headers=headers, text=redactor.text(answer.text), url=redactor.text(answer.url)
        )

    def _pieces(self, deltas: Sequence[ChatDelta]) -> list[str | PieceRecord]:
        """Write pieces down. A secret that lies across their borders is found too, in what was said and thought."""
        texts = [delta.text for delta in deltas]
        for is_thinking in (False, True):
            chosen = [i for i, delta in enumerate(deltas) if delta.is_thinking is is_thinking]
            for index, text in zip(chosen, self._redactor.pieces([texts[i] for i in chosen]), strict=True):
                texts[index] = text
        return [self._piece(delta, text) for delta, text in zip(deltas, texts, strict=True)]

    def _piece(self, delta: ChatDelta, text: str) -> str | PieceRecord:
        if not (delta.is_thinking or delta.calls or delta.usage):
            return text
        calls = [(call.id, call.name, self._redactor.text(call.arguments)) for call in delta.calls]
        return PieceRecord(text=text, is_thinking=delta.is_thinking, calls=calls, usage=_usage(delta.usage))


def _usage(usage: Usage | None) -> tuple[int, int, int, float] | None:
    if usage is None:
        return None
    read, written, calls, cost = map(bounded_number, usage)
    return int(read), int(written), int(calls), cost


class _Models:
    """`ragflow_lg.services.services.ChatModels` of one caller."""

    def __init__(self, models: ChatModels, recorder: Recorder, caller: Caller) -> None:
        self._models = models
        self._recorder = recorder
        self._caller = caller

    def model(self, llm_id: str) -> ChatModel:
        try:
            model = self._models.model(llm_id)
        except SettingsError as error:
            self._recorder.model(llm_id, None, str(error))
            raise
        self._recorder.model(llm_id, model)
        return _Chat(model, llm_id, self._recorder, self._caller)


class _Chat:
    """`ragflow_lg.services.services.ChatModel` of one caller."""

    def __init__(self, model: ChatModel, llm_id: str, recorder: Recorder, caller: Caller) -> None:
        self._model = model
        self._llm_id = llm_id
        self._recorder = recorder
        self._caller = caller
        self.context_tokens = model.context_tokens
        self.has_vision = model.has_vision
        self.has_tools = model.has_tools
        self.has_schemas = model.has_schemas

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        order, asked = self._recorder.begin(), self._recorder.request(self._llm_id, request)
        deltas: list[ChatDelta] = []
        failure: ServiceError | None = None
        try:
            answer = await self._model.complete(request)
            deltas.append(ChatDelta(answer.text, calls=tuple(map(ToolCall._make, answer.calls)), usage=answer.usage))
        except ServiceError as error:
            failure = error
            raise
        finally:
            is_stopped = not deltas and failure is None
            self._recorder.chat(order, self._caller, asked, deltas, failure, is_stopped=is_stopped)
        return answer

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        order, asked = self._recorder.begin(), self._recorder.request(self._llm_id, request)
        deltas: list[ChatDelta] = []
        failure: ServiceError | None = None
        is_stopped = True
        pieces = self._model.stream(request)
        try:
            async for delta in pieces:
                deltas.append(delta)
                yield delta
            is_stopped = False
        except ServiceError as error:
            failure, is_stopped = error, False
            raise
        finally:
            self._recorder.chat(order, self._caller, asked, deltas, failure, is_stopped=is_stopped)
            if isinstance(pieces, AsyncGenerator):
                await pieces.aclose()


class _Http:
    """`ragflow_lg.services.services.HttpClient` of one caller."""

    def __init__(self, client: HttpClient, recorder: Recorder, caller: Caller) -> None:
        self._client = client
        self._recorder = recorder
        self._caller = caller

    async def send(self, request: HttpRequest) -> HttpResponse:
        return await self._recorder.http(self._client, self._caller, request)


class _Servers(Mapping[str, ToolServer]):
    """The servers of tools, for one caller."""

    def __init__(self, servers: Mapping[str, ToolServer], recorder: Recorder, caller: Caller) -> None:
        self._servers = servers
        self._recorder = recorder
        self._caller = caller

    def __getitem__(self, id_: str) -> ToolServer:
        if id_ not in self._servers:
            self._recorder.server(id_)
        return _Server(self._servers[id_], id_, self._recorder, self._caller)

    def __iter__(self) -> Iterator[str]:
        return iter(self._servers)

    def __len__(self) -> int:
        return len(self._servers)


class _Server:
    """`ragflow_lg.services.services.ToolServer` of one caller."""

    def __init__(self, server: ToolServer, id_: str, recorder: Recorder, caller: Caller) -> None:
        self._server = server
        self._id = id_
        self._recorder = recorder
        self._caller = caller

    def check(self, tool: str) -> None:
        try:
            self._server.check(tool)
        except SettingsError as error:
            self._recorder.server(self._id, tool, str(error))
            raise
        self._recorder.server(self._id, tool)

    async def call(self, tool: str, arguments: Mapping[str, Any], headers: Mapping[str, str]) -> ServerAnswer:
        return await self._recorder.call(self._server, self._caller, self._id, tool, arguments, headers)


def _limit(error: TimeoutError) -> float:
    """Give the limit in seconds that a server's time-out names."""
    return float(error.args[0]) if error.args and isinstance(error.args[0], int | float) else 0.0


class _Clock:
    """`ragflow_lg.services.services.Clock` whose dates are recorded, since prompts may hold them."""

    def __init__(self, clock: Clock, writer: CassetteWriter) -> None:
        self._clock = clock
        self._writer = writer
        self.now = clock.now
        self.monotonic = clock.monotonic

    def local_time(self) -> str:
        date = self._clock.local_time()
        self._writer.write(DateLine(value=date))
        return date


class _Ids:
    """`ragflow_lg.services.services.Ids` whose seeds are recorded, since they choose texts."""

    def __init__(self, ids: Ids, writer: CassetteWriter) -> None:
        self._ids = ids
        self._writer = writer

    def run_id(self) -> RunId:
        return self._ids.run_id()

    def seed(self) -> int:
        seed = self._ids.seed()
        self._writer.write(SeedLine(value=seed))
        return seed
