"""What a deployment provides for tools: permits, guards and a cache for calls, MCP servers, endpoints and keys.

This module contains only data and Protocols, which are part of `Services`. By default everything is permitted, and
there are no guards and no cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, Protocol, TypeAlias

from msgspec import Struct, field

from ragflow_lg.base.values import JsonValue


class ToolPermits(Struct, frozen=True):
    """The tools that may be called, by name or pattern (``*``, ``?``, ``[…]``), ignoring case.

    Names are component and function names, ``mcp:ID/TOOL`` and ``canvas:NAME``.

    >>> ToolPermits(allow=("Wikipedia", "mcp:*"), deny=("mcp:shell/*",)).permits(["mcp:shell/run"])
    False
    """

    allow: tuple[str, ...] | None = None
    """None permits all tools, an empty tuple none."""
    deny: tuple[str, ...] = ()
    """Takes precedence over ``allow``."""
    ask: tuple[str, ...] = ()
    """The tools that are called only after the user has approved the call; ``effects:writes`` names all that write."""

    def permits(self, names: Sequence[str]) -> bool:
        """Return whether a tool with these names may be called. If there are rules, a tool without a name may not."""
        if self.allow is None and not self.deny:
            return True
        if not names or _is_among(names, self.deny):
            return False
        return self.allow is None or _is_among(names, self.allow)

    def asks(self, names: Sequence[str]) -> bool:
        """Return whether the user must approve each call of a tool with these names."""
        return _is_among(names, self.ask)


def _is_among(names: Sequence[str], patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name.lower(), pattern.lower()) for name in names for pattern in patterns)


class ToolUse(Struct, frozen=True):
    """A tool call, as seen by a guard."""

    tool: str
    """The name by which it is permitted."""
    agent: str
    """The id of the agent's node."""
    arguments: Mapping[str, Any]


class Allow(Struct, frozen=True):
    """Allow the call, or return the result, unchanged."""


class Refuse(Struct, frozen=True):
    """Reject the call or withhold its result. The model receives the reason."""

    reason: str


class Replace(Struct, frozen=True):
    """Call the tool with different arguments (a map), or return a different result, whose sources are then omitted."""

    value: JsonValue


Verdict: TypeAlias = Allow | Refuse | Replace


class ToolGuard(Protocol):
    """A check of every tool call, including calls of agents and canvases that are tools themselves.

    If a guard raises an exception, returns no verdict or takes too long, the call is rejected.
    """

    async def before(self, use: ToolUse) -> Verdict:
        """Check a call before it is made."""
        ...

    async def after(self, use: ToolUse, result: JsonValue) -> Verdict:
        """Check a result, including an error, before the model receives it."""
        ...


class ResultCache(Protocol):
    """A cache for the results of tools that the deployment selects."""

    async def find(
        self, names: Sequence[str], configuration: JsonValue, arguments: JsonValue
    ) -> tuple[bool, JsonValue]:
        """Return whether there is a cached result, and a copy of it."""
        ...

    async def put(
        self, names: Sequence[str], configuration: JsonValue, arguments: JsonValue, result: JsonValue
    ) -> None:
        """Store a result (JSON) for a while, if the tool is selected for caching."""
        ...

    def covers(self, names: Sequence[str]) -> bool:
        """Return whether the results of a tool with these names are cached."""
        ...


class ToolPolicies(Struct, frozen=True):
    """The policies for tool calls."""

    permits: ToolPermits = ToolPermits()
    guards: tuple[ToolGuard, ...] = ()
    """The guards are called in order; each one sees the replacements made by the previous ones."""
    cache: ResultCache | None = None


class ServerAnswer(Struct, frozen=True):
    """The result of a server's tool. ``others`` lists the kinds of non-text content, for example ``image``."""

    texts: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    structured: JsonValue = None
    is_error: bool = False
    """Whether the server reports a failure; ``texts`` then has the reason."""


class ServerTool(NamedTuple):
    """A tool of a server, with the JSON schema of its arguments."""

    name: str
    description: str
    schema: Mapping[str, JsonValue]
    effects: str = ""
    """What a call may change, if that is known; see `ragflow_lg.component.spec.ComponentSpec`."""


class ToolServers(Protocol):
    """The servers in the settings that offer tools, over the Model Context Protocol or as an API, by their ids."""

    def serves(self, server: str) -> bool:
        """Return whether the settings have a server with this id."""
        ...

    def check(self, server: str, tool: str) -> None:
        """Raise `SettingsError` if there is no such server, a canvas may not call the tool, or no call is possible."""
        ...

    async def call(
        self, server: str, tool: str, arguments: Mapping[str, Any], headers: Mapping[str, str]
    ) -> ServerAnswer:
        """Call a tool; ``headers`` are set by the canvas, for servers over HTTP.

        Raises:
            ServiceError: if the server is unreachable, disconnects, rejects the call or exceeds the size limit.
            SettingsError: if there is no such server.
            TimeoutError: if it does not answer in time; its argument is the limit in seconds.
        """
        ...

    async def find_tool(self, server: str, tool: str) -> Sequence[ServerTool]:
        """Return the tool if its server has a document that describes it; canvases describe the tools of others.

        Raises:
            SettingsError: if there is no such tool.
            ServiceError: if its description cannot be read.
        """
        ...

    async def list_tools(self, server: str) -> Sequence[ServerTool]:
        """Return the tools that canvases may call.

        Raises:
            SettingsError: if no call is possible.
            ServiceError: if the server is unreachable.
            TimeoutError: if it does not answer in time.
        """
        ...


class CrawlerRules(Struct, frozen=True):
    """How web pages are read."""

    obeys_robots: bool = True
    """Whether pages that a site's ``robots.txt`` excludes are left alone."""
    max_page_bytes: int = 4 * 1024 * 1024


class ToolSettings(Struct, frozen=True):
    """Tool settings: alternative endpoints and keys for services, by service name."""

    endpoints: Mapping[str, str] = field(default_factory=dict[str, str])
    keys: Mapping[str, str] = field(default_factory=dict[str, str])
    crawler: CrawlerRules = CrawlerRules()

    def __repr__(self) -> str:
        """Hide the keys."""
        return f"ToolSettings(endpoints={self.endpoints!r}, keys of {sorted(self.keys)})"

    def endpoint(self, service: str, default: str) -> str:
        """Return a service's endpoint, without a trailing slash."""
        return (self.endpoints.get(service) or default).rstrip("/")

    def key(self, service: str) -> str:
        """Return a service's key, or ``""`` if it has none."""
        return self.keys.get(service, "").strip()
