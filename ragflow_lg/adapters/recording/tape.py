"""What wrapped services need from a recorder or a player."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Protocol

from ragflow_lg.adapters.recording.exchanges import A, Exchange
from ragflow_lg.dsl.redaction import Redactor
from ragflow_lg.services.chat import ChatDelta, ChatModel, ChatModels, ChatRequest
from ragflow_lg.services.services import Caller, Clock, Ids
from ragflow_lg.services.tool_policies import ToolServer


class Tape(Protocol):
    """A recorder, which calls the real services, or a player, which never does."""

    @property
    def redactor(self) -> Redactor:
        """Removes secrets from requests."""
        ...

    async def exchange(
        self,
        kind: Exchange[A, Any],
        caller: Caller,
        request: dict[str, Any],
        call_service: Callable[[], Awaitable[A]],
    ) -> A:
        """Return the answer to a request."""
        ...

    def stream(self, caller: Caller, llm_id: str, request: ChatRequest, model: ChatModel) -> AsyncIterator[ChatDelta]:
        """Yield the pieces of a model's answer."""
        ...

    def find_model(self, caller: Caller, llm_id: str, models: ChatModels) -> Any:
        """Return the model, or an object with its properties."""
        ...

    def find_server(self, id_: str, servers: Mapping[str, ToolServer]) -> ToolServer:
        """Return an MCP server. Raise KeyError if there is no such server."""
        ...

    def check_tool(self, caller: Caller, server_id: str, tool: str, server: ToolServer) -> None:
        """Raise SettingsError if the tool of a server may not be called."""
        ...

    def local_time(self, clock: Clock) -> str:
        """Return the local time, which prompts may contain."""
        ...

    def seed(self, ids: Ids) -> int:
        """Return the seed of a turn, which selects texts."""
        ...
