"""One caller's services, wrapped by a recorder or a player."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from msgspec.structs import asdict, replace

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
    MAIL,
    MEMORY,
    METADATA,
    QUERY,
    SEARCH,
    A,
    DatasetRow,
    Exchange,
    Tape,
    join_pieces,
    pieces_of,
    read_pieces,
)
from ragflow_lg.base.ids import RunId
from ragflow_lg.base.values import to_json
from ragflow_lg.dsl.redaction import Redactor
from ragflow_lg.services.chat import ChatAnswer, ChatDelta, ChatModel, ChatModels, ChatRequest
from ragflow_lg.services.databases import Databases, SqlQuery, StatementResult, Target
from ragflow_lg.services.http import HttpClient, HttpRequest, HttpResponse
from ragflow_lg.services.knowledge import Dataset, DatasetSearch, Knowledge, Metadata, SearchResult
from ragflow_lg.services.mail import Delivery, Mailer, MailMessage, MailTarget
from ragflow_lg.services.memories import Exchange as MemoryExchange
from ragflow_lg.services.memories import Memories, MemoryResult, MemorySearch
from ragflow_lg.services.services import Caller, Clock, Ids, Services
from ragflow_lg.services.tool_policies import ServerAnswer, ToolServer

S = TypeVar("S")


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
            databases=_Databases(tape, caller, services.databases),
            memories=_Memories(tape, caller, services.memories),
            mailer=_Mailer(tape, caller, services.mailer),
            for_caller=inside,
        )

    return for_caller(Caller())


class _Wrapped(Generic[S]):
    """A service for a caller."""

    def __init__(self, tape: Tape, caller: Caller, service: S) -> None:
        self._tape = tape
        self._caller = caller
        self._service = service

    async def _exchange(self, kind: Exchange[A], request: dict[str, Any], call: Callable[[], Awaitable[A]]) -> A:
        return await self._tape.exchange(kind, self._caller, request, call)


class _Models(_Wrapped[ChatModels]):
    """`ragflow_lg.services.chat.ChatModels` for a caller."""

    def model(self, llm_id: str) -> ChatModel:
        return _Chat(self._tape, self._caller, llm_id, self._tape.find_model(self._caller, llm_id, self._service))


class _Chat(_Wrapped[Any]):
    """`ragflow_lg.services.chat.ChatModel` for a caller."""

    def __init__(self, tape: Tape, caller: Caller, llm_id: str, model: Any) -> None:
        super().__init__(tape, caller, model)
        self._llm_id = llm_id
        self.context_tokens: int = model.context_tokens
        self.has_vision: bool = model.has_vision
        self.has_tools: bool = model.has_tools
        self.has_schemas: bool = model.has_schemas

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        async def complete() -> list[str | ChatDelta]:
            return [*pieces_of(await self._service.complete(request))]

        written = chat_request(self._llm_id, request, self._tape.redactor)
        return join_pieces(read_pieces(await self._exchange(CHAT, written, complete)))

    def stream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        return self._tape.stream(self._caller, self._llm_id, request, self._service)


class _Http(_Wrapped[HttpClient]):
    """`ragflow_lg.services.http.HttpClient` for a caller."""

    async def send(self, request: HttpRequest) -> HttpResponse:
        written = http_request(request, self._tape.redactor)
        return await self._exchange(HTTP, written, lambda: self._service.send(request))


class _Servers(_Wrapped[Mapping[str, ToolServer]], Mapping[str, ToolServer]):
    """The MCP servers for a caller."""

    def __getitem__(self, id_: str) -> ToolServer:
        return _Server(self._tape, self._caller, id_, self._tape.find_server(id_, self._service))

    def __iter__(self) -> Iterator[str]:
        return iter(self._service)

    def __len__(self) -> int:
        return len(self._service)


class _Server(_Wrapped[ToolServer]):
    """`ragflow_lg.services.tool_policies.ToolServer` for a caller."""

    def __init__(self, tape: Tape, caller: Caller, id_: str, server: ToolServer) -> None:
        super().__init__(tape, caller, server)
        self._id = id_

    def check(self, tool: str) -> None:
        self._tape.check_tool(self._caller, self._id, tool, self._service)

    async def call(self, tool: str, arguments: Mapping[str, Any], headers: Mapping[str, str]) -> ServerAnswer:
        self._tape.redactor.learn_from(headers)
        written = call_request(self._id, tool, arguments, self._tape.redactor)
        return await self._exchange(CALL, written, lambda: self._service.call(tool, arguments, headers))


class _Knowledge(_Wrapped[Knowledge]):
    """`ragflow_lg.services.knowledge.Knowledge` for a caller."""

    async def datasets(self, names_or_ids: Sequence[str]) -> Mapping[str, Dataset]:
        async def look_up() -> DatasetRow:
            datasets = await self._service.datasets(names_or_ids)
            return [datasets.get(name) for name in names_or_ids]

        row = await self._exchange(DATASETS, datasets_request(names_or_ids, self._tape.redactor), look_up)
        # A loose replay may return the row of another request.
        return {name: dataset for name, dataset in zip(names_or_ids, row, strict=False) if dataset is not None}

    async def search(self, search: DatasetSearch) -> SearchResult:
        written = search_request(search, self._tape.redactor)
        return await self._exchange(SEARCH, written, lambda: self._service.search(search))

    async def metadata(self, datasets: Sequence[Dataset]) -> Metadata:
        written = metadata_request(datasets, self._tape.redactor)
        return await self._exchange(METADATA, written, lambda: self._service.metadata(datasets))


class _Memories(_Wrapped[Memories]):
    """`ragflow_lg.services.memories.Memories` for a caller. A replay stores nothing."""

    def for_agent(self, agent: str, realm: str = "") -> _Memories:
        return _Memories(self._tape, self._caller, self._service.for_agent(agent, realm))

    async def remember(self, memories: Sequence[str], exchange: MemoryExchange) -> Sequence[str]:
        return await self._service.remember(memories, exchange)

    async def search(self, search: MemorySearch) -> MemoryResult:
        redactor = self._tape.redactor
        request: dict[str, Any] = {**asdict(search), "question": redactor.text(search.question)}
        request = {**request, "memories": list(search.memories), "user": redactor.text(search.user)}
        return await self._exchange(MEMORY, request, lambda: self._service.search(search))


class _Databases(_Wrapped[Databases]):
    """`ragflow_lg.services.databases.Databases` for a caller. A replay never queries or changes a database."""

    def allows_writes(self, target: Target) -> bool:
        return self._service.allows_writes(target)

    async def run(self, target: Target, query: SqlQuery) -> Sequence[StatementResult]:
        request = {"database": _name(target), "sql": query.sql, "values": query.values, "max_rows": query.max_rows}
        written = _written(request, target, self._tape.redactor)
        return await self._exchange(QUERY, written, lambda: self._service.run(target, query))


class _Mailer(_Wrapped[Mailer]):
    """`ragflow_lg.services.mail.Mailer` for a caller. A replay sends nothing."""

    async def send(self, target: MailTarget, message: MailMessage) -> Delivery:
        written = _written({"server": _name(target), **asdict(message)}, target, self._tape.redactor)
        return await self._exchange(MAIL, written, lambda: self._service.send(target, message))


def _name(target: Target | MailTarget) -> str:
    return target if isinstance(target, str) else repr(target)


def _written(request: Mapping[str, Any], target: Target | MailTarget, redactor: Redactor) -> dict[str, Any]:
    """Return a request as JSON without secrets. The redactor learns the password of the account."""
    redactor.learn("" if isinstance(target, str) else target.password)
    cleaned: Any = redactor.value(
        to_json({name: value for name, value in request.items() if value not in ("", (), {})})
    )
    return cleaned


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
