"""One caller's services, wrapped by a recorder or a player."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from ragflow_lg.adapters.recording.cassette_requests import (
    call_request,
    chat_request,
    datasets_request,
    http_request,
    metadata_request,
    search_request,
)
from ragflow_lg.adapters.recording.exchanges import (
    CALL,
    CHAT,
    DATASETS,
    HTTP,
    METADATA,
    SEARCH,
    DatasetRow,
)
from ragflow_lg.adapters.recording.recorded_accounts import RecordedDatabases, RecordedMailer, RecordedMemories
from ragflow_lg.adapters.recording.tape import Tape
from ragflow_lg.base.ids import RunId
from ragflow_lg.services.chat import ChatAnswer, ChatDelta, ChatModel, ChatModels, ChatRequest
from ragflow_lg.services.http import HttpClient, HttpRequest, HttpResponse
from ragflow_lg.services.knowledge import Dataset, DatasetSearch, Knowledge, Metadata, SearchResult
from ragflow_lg.services.services import Caller, Clock, Ids, Services
from ragflow_lg.services.tool_policies import ServerAnswer, ToolServer


def wrap_services(tape: Tape, services: Services) -> Services:
    """Return services that go through a tape, which distinguishes their callers."""
    base = replace(services, clock=_Clock(tape, services.clock), ids=_Ids(tape, services.ids))

    def for_caller(caller: Caller) -> Services:
        def inside(inner: Caller) -> Services:
            return for_caller(inner.within(caller))

        return replace(
            base,
            models=_Models(tape, caller, services.models),
            http=_Http(tape, caller, services.http),
            servers=_Servers(tape, caller, services.servers),
            knowledge=_Knowledge(tape, caller, services.knowledge) if services.knowledge is not None else None,
            databases=RecordedDatabases(tape, caller, services.databases),
            memories=RecordedMemories(tape, caller, services.memories),
            mailer=RecordedMailer(tape, caller, services.mailer),
            for_caller=inside,
        )

    return for_caller(Caller())


class _Models:
    """`ragflow_lg.services.chat.ChatModels` for a caller."""

    def __init__(self, tape: Tape, caller: Caller, models: ChatModels) -> None:
        self._tape = tape
        self._caller = caller
        self._models = models

    def model(self, llm_id: str) -> ChatModel:
        return _Chat(self._tape, self._caller, llm_id, self._tape.find_model(self._caller, llm_id, self._models))


class _Chat:
    """`ragflow_lg.services.chat.ChatModel` for a caller."""

    def __init__(self, tape: Tape, caller: Caller, llm_id: str, model: Any) -> None:
        self._tape = tape
        self._caller = caller
        self._llm_id = llm_id
        self._model = model
        self.context_tokens: int = model.context_tokens
        self.has_vision: bool = model.has_vision
        self.has_tools: bool = model.has_tools
        self.has_schemas: bool = model.has_schemas

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        written = chat_request(self._llm_id, request, self._tape.redactor)
        return await self._tape.exchange(CHAT, self._caller, written, lambda: self._model.complete(request))

    def stream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        return self._tape.stream(self._caller, self._llm_id, request, self._model)


class _Http:
    """`ragflow_lg.services.http.HttpClient` for a caller."""

    def __init__(self, tape: Tape, caller: Caller, client: HttpClient) -> None:
        self._tape = tape
        self._caller = caller
        self._client = client

    async def send(self, request: HttpRequest) -> HttpResponse:
        written = http_request(request, self._tape.redactor)
        return await self._tape.exchange(HTTP, self._caller, written, lambda: self._client.send(request))


class _Servers(Mapping[str, ToolServer]):
    """The MCP servers for a caller."""

    def __init__(self, tape: Tape, caller: Caller, servers: Mapping[str, ToolServer]) -> None:
        self._tape = tape
        self._caller = caller
        self._servers = servers

    def __getitem__(self, id_: str) -> ToolServer:
        return _Server(self._tape, self._caller, id_, self._tape.find_server(id_, self._servers))

    def __iter__(self) -> Iterator[str]:
        return iter(self._servers)

    def __len__(self) -> int:
        return len(self._servers)


class _Server:
    """`ragflow_lg.services.tool_policies.ToolServer` for a caller."""

    def __init__(self, tape: Tape, caller: Caller, id_: str, server: ToolServer) -> None:
        self._tape = tape
        self._caller = caller
        self._id = id_
        self._server = server

    def check(self, tool: str) -> None:
        self._tape.check_tool(self._caller, self._id, tool, self._server)

    async def call(self, tool: str, arguments: Mapping[str, Any], headers: Mapping[str, str]) -> ServerAnswer:
        self._tape.redactor.learn_from(headers)
        written = call_request(self._id, tool, arguments, self._tape.redactor)
        return await self._tape.exchange(
            CALL, self._caller, written, lambda: self._server.call(tool, arguments, headers)
        )


class _Knowledge:
    """`ragflow_lg.services.knowledge.Knowledge` for a caller."""

    def __init__(self, tape: Tape, caller: Caller, knowledge: Knowledge) -> None:
        self._tape = tape
        self._caller = caller
        self._knowledge = knowledge

    async def datasets(self, names_or_ids: Sequence[str]) -> Mapping[str, Dataset]:
        async def look_up() -> DatasetRow:
            datasets = await self._knowledge.datasets(names_or_ids)
            return [datasets.get(name) for name in names_or_ids]

        written = datasets_request(names_or_ids, self._tape.redactor)
        row = await self._tape.exchange(DATASETS, self._caller, written, look_up)
        # A loose replay may return the row of another request.
        return {name: dataset for name, dataset in zip(names_or_ids, row, strict=False) if dataset is not None}

    async def search(self, search: DatasetSearch) -> SearchResult:
        written = search_request(search, self._tape.redactor)
        return await self._tape.exchange(SEARCH, self._caller, written, lambda: self._knowledge.search(search))

    async def metadata(self, datasets: Sequence[Dataset]) -> Metadata:
        written = metadata_request(datasets, self._tape.redactor)
        return await self._tape.exchange(METADATA, self._caller, written, lambda: self._knowledge.metadata(datasets))


class _Clock:
    """`ragflow_lg.services.services.Clock` with the dates from the tape."""

    def __init__(self, tape: Tape, clock: Clock) -> None:
        self._tape = tape
        self._clock = clock
        self.now = clock.now
        self.monotonic = clock.monotonic

    def local_time(self) -> str:
        return self._tape.local_time(self._clock)


class _Ids:
    """`ragflow_lg.services.services.Ids` with the seeds from the tape."""

    def __init__(self, tape: Tape, ids: Ids) -> None:
        self._tape = tape
        self._ids = ids

    def run_id(self) -> RunId:
        return self._ids.run_id()

    def seed(self) -> int:
        return self._tape.seed(self._ids)
