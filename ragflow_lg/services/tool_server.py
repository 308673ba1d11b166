"""Tools outside the process: MCP servers, and the endpoints and keys of HTTP services."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from msgspec import Struct, field

from ragflow_lg.base.values import JsonValue

__all__ = ["ServerAnswer", "ToolServer", "ToolSettings"]


class ServerAnswer(Struct, frozen=True):
    """What a tool of a server gave. ``others`` are the kinds of its contents that are no text, as ``image``."""

    texts: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    structured: JsonValue = None
    is_error: bool = False
    """Whether the server says that the call failed; ``texts`` then tell why."""


class ToolServer(Protocol):
    """A server of the settings that offers tools: one that speaks the Model Context Protocol."""

    def check(self, tool: str) -> None:
        """Raise `SettingsError` if a canvas may not call the tool, or no call is possible at all."""
        ...

    async def call(self, tool: str, arguments: Mapping[str, Any], headers: Mapping[str, str]) -> ServerAnswer:
        """Call a tool; ``headers`` are the canvas's own, for servers that are reached over HTTP.

        Raises:
            ServiceError: if the server cannot be reached, breaks off, refuses the call or answers too much.
            TimeoutError: if it does not answer in time; its argument is the limit in seconds.
        """
        ...


class ToolSettings(Struct, frozen=True):
    """What tools need beside a canvas: other addresses of their services, and keys, by the name of the service."""

    endpoints: Mapping[str, str] = field(default_factory=dict[str, str])
    keys: Mapping[str, str] = field(default_factory=dict[str, str])

    def __repr__(self) -> str:
        """Show no key."""
        return f"ToolSettings(endpoints={self.endpoints!r}, keys of {sorted(self.keys)})"

    def endpoint(self, service: str, default: str) -> str:
        """Give the address of a service, without a slash at its end."""
        return (self.endpoints.get(service) or default).rstrip("/")

    def key(self, service: str) -> str:
        """Give the key of a service, ``""`` if there is none."""
        return self.keys.get(service, "").strip()
