"""Recording of everything that a run requests from services, and of their answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from ragflow_lg.adapters.recording.cassette import (
    CassetteWriter,
    DateLine,
    ExchangeLine,
    FailureRecord,
    ModelLine,
    SeedLine,
    ServerLine,
    ToolsLine,
)
from ragflow_lg.adapters.recording.cassette_requests import chat_request
from ragflow_lg.adapters.recording.exchanges import CHAT, A, Exchange
from ragflow_lg.adapters.recording.wrapped_services import wrap_services
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.dsl.redaction import Redactor
from ragflow_lg.services.chat import ChatDelta, ChatModel, ChatModels, ChatRequest
from ragflow_lg.services.services import Caller, Clock, Ids, Services
from ragflow_lg.services.tool_policies import ToolServer, ToolSettings


class Recorder:
    """Records services. Removes the secrets that the redactor knows or detects."""

    def __init__(self, writer: CassetteWriter, redactor: Redactor) -> None:
        self.redactor = redactor
        self._writer = writer
        self._order = 0
        self._models: set[str] = set()
        self._servers: set[ServerLine] = set()

    def wrap(self, services: Services) -> Services:
        """Return services that behave the same and are recorded."""
        tools = services.tools
        if tools != ToolSettings():
            for key in tools.keys.values():
                self.redactor.learn(key)
            endpoints = {name: self.redactor.text(url) for name, url in tools.endpoints.items()}
            line = ToolsLine(
                endpoints=endpoints,
                keys=sorted(tools.keys),
                obeys_robots=tools.crawler.obeys_robots,
                user_agent=tools.crawler.user_agent,
            )
            self._writer.write(line)
        return wrap_services(self, services)

    async def exchange(
        self, kind: Exchange[A], caller: Caller, request: dict[str, Any], call_service: Callable[[], Awaitable[A]]
    ) -> A:
        """Call a service and record the exchange, even if it fails or is stopped."""
        common = self._begin(caller, request)
        answer: A | None = None
        failure: Exception | None = None
        try:
            answer = await call_service()
            return answer
        except kind.failures as error:
            failure = error
            raise
        finally:
            fields: dict[str, Any] = {"is_stopped": answer is None and failure is None}
            if answer is not None:
                fields["answer"] = kind.encode(answer, self.redactor)
            elif isinstance(failure, TimeoutError):
                fields["timeout_s"] = _limit_s(failure)
            elif isinstance(failure, ServiceError | SettingsError):
                is_setting = kind.replays_settings_errors and isinstance(failure, SettingsError)
                fields["error"] = FailureRecord.of(failure, self.redactor, is_setting=is_setting)
            self._writer.write(ExchangeLine(service=kind.service, **common, **fields))

    async def stream(
        self, caller: Caller, llm_id: str, request: ChatRequest, model: ChatModel
    ) -> AsyncIterator[ChatDelta]:
        """Yield the pieces of a model's answer and record them, even if the stream fails or is stopped."""
        common = self._begin(caller, chat_request(llm_id, request, self.redactor))
        deltas: list[ChatDelta] = []
        failure: ServiceError | None = None
        is_stopped = True
        pieces = model.stream(request)
        try:
            async for delta in pieces:
                deltas.append(delta)
                yield delta
            is_stopped = False
        except ServiceError as error:
            failure, is_stopped = error, False
            raise
        finally:
            written = CHAT.encode(deltas, self.redactor)
            error = FailureRecord.of(failure, self.redactor) if failure else None
            self._writer.write(
                ExchangeLine(service=CHAT.service, **common, answer=written, error=error, is_stopped=is_stopped)
            )
            if isinstance(pieces, AsyncGenerator):
                await pieces.aclose()

    def _begin(self, caller: Caller, request: dict[str, Any]) -> dict[str, Any]:
        """Count a request. Return the fields that all exchange lines have."""
        self._order += 1
        return {"order": self._order, "node": caller.node, "position": caller.position, "request": request}

    def find_model(self, caller: Caller, llm_id: str, models: ChatModels) -> ChatModel:
        """Return a model, and record its properties once."""
        try:
            model = models.model(llm_id)
        except SettingsError as error:
            self._record_model(ModelLine(llm_id=llm_id, error=self.redactor.text(str(error))))
            raise
        line = ModelLine(
            llm_id=llm_id,
            context_tokens=model.context_tokens,
            has_vision=model.has_vision,
            has_tools=model.has_tools,
            has_schemas=model.has_schemas,
        )
        self._record_model(line)
        return model

    def _record_model(self, line: ModelLine) -> None:
        if line.llm_id not in self._models:
            self._models.add(line.llm_id)
            self._writer.write(line)

    def find_server(self, id_: str, servers: Mapping[str, ToolServer]) -> ToolServer:
        """Return an MCP server. If it does not exist, record that.

        Raises:
            KeyError: if there is no such server.
        """
        if id_ not in servers:
            self._record_server(ServerLine(server=id_))
        return servers[id_]

    def check_tool(self, caller: Caller, server_id: str, tool: str, server: ToolServer) -> None:
        """Check whether a tool of a server may be called, and record the result once.

        Raises:
            SettingsError: if it may not be called.
        """
        try:
            server.check(tool)
        except SettingsError as error:
            self._record_server(ServerLine(server=server_id, tool=tool, error=self.redactor.text(str(error))))
            raise
        self._record_server(ServerLine(server=server_id, tool=tool))

    def _record_server(self, line: ServerLine) -> None:
        if line not in self._servers:
            self._servers.add(line)
            self._writer.write(line)

    def local_time(self, clock: Clock) -> str:
        """Return the local time, and record it."""
        date = clock.local_time()
        self._writer.write(DateLine(value=date))
        return date

    def seed(self, ids: Ids) -> int:
        """Return the seed of a turn, and record it."""
        seed = ids.seed()
        self._writer.write(SeedLine(value=seed))
        return seed


def _limit_s(error: TimeoutError) -> float:
    """Return the limit in a server's timeout error."""
    return float(error.args[0]) if error.args and isinstance(error.args[0], int | float) else 0.0
