"""Tools outside the process: MCP servers, and the endpoints and keys of HTTP services."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from msgspec import Struct, field

from ragflow_lg.base.values import JsonValue


class ServerAnswer(Struct, frozen=True):
    """The result of a server's tool. ``others`` lists the kinds of non-text content, for example ``image``."""

    texts: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    structured: JsonValue = None
    is_error: bool = False
    """Whether the server reports a failure; ``texts`` then has the reason."""


class ToolServer(Protocol):
    """A tool server from the settings that implements the Model Context Protocol."""

    def check(self, tool: str) -> None:
        """Raise `SettingsError` if a canvas may not call the tool, or no call is possible at all."""
        ...

    async def call(self, tool: str, arguments: Mapping[str, Any], headers: Mapping[str, str]) -> ServerAnswer:
        """Call a tool; ``headers`` are set by the canvas, for servers over HTTP.

        Raises:
            ServiceError: if the server is unreachable, disconnects, rejects the call or exceeds the size limit.
            TimeoutError: if it does not answer in time; its argument is the limit in seconds.
        """
        ...


class ToolSettings(Struct, frozen=True):
    """Tool settings: alternative endpoints and keys for services, by service name."""

    endpoints: Mapping[str, str] = field(default_factory=dict[str, str])
    keys: Mapping[str, str] = field(default_factory=dict[str, str])

    def __repr__(self) -> str:
        """Hide the keys."""
        return f"ToolSettings(endpoints={self.endpoints!r}, keys of {sorted(self.keys)})"

    def endpoint(self, service: str, default: str) -> str:
        """Return a service's endpoint, without a trailing slash."""
        return (self.endpoints.get(service) or default).rstrip("/")

    def key(self, service: str) -> str:
        """Return a service's key, or ``""`` if it has none."""
        return self.keys.get(service, "").strip()
