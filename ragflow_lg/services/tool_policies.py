"""What a deployment lets the tools of its agents do: which may be called, who looks on, what is remembered.

All of it is data and Protocols, handed in with `Services`; by default everything is permitted,
nobody looks on and nothing is remembered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Protocol, TypeAlias

from msgspec import Struct

from ragflow_lg.base.values import JsonValue

__all__ = [
    "Allow",
    "Refuse",
    "Replace",
    "ResultCache",
    "ToolGuard",
    "ToolPermits",
    "ToolPolicies",
    "ToolUse",
    "Verdict",
]


class ToolPermits(Struct, frozen=True):
    """Which tools may be called, by name or pattern (``*``, ``?``, ``[…]``), whatever the case of the letters.

    Names are those of components and functions, ``mcp:ID/TOOL`` and ``canvas:NAME``.

    >>> ToolPermits(allow=("Wikipedia", "mcp:*"), deny=("mcp:shell/*",)).permits(["mcp:shell/run"])
    False
    """

    allow: tuple[str, ...] | None = None
    """None for all; an empty one permits nothing."""
    deny: tuple[str, ...] = ()
    """Goes before ``allow``."""

    def permits(self, names: Sequence[str]) -> bool:
        """Tell whether a tool of these names may be called. One without a name may not as soon as there is a rule."""
        if self.allow is None and not self.deny:
            return True
        if not names or _is_among(names, self.deny):
            return False
        return self.allow is None or _is_among(names, self.allow)


def _is_among(names: Sequence[str], patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name.lower(), pattern.lower()) for name in names for pattern in patterns)


class ToolUse(Struct, frozen=True):
    """A call of a tool, as a guard sees it."""

    tool: str
    """The name by which it is permitted."""
    agent: str
    """Id of the agent's node."""
    arguments: Mapping[str, Any]


class Allow(Struct, frozen=True):
    """Let it be as it is."""


class Refuse(Struct, frozen=True):
    """Do not call the tool, or do not tell what it gave. The model is told the reason."""

    reason: str


class Replace(Struct, frozen=True):
    """Call the tool with other arguments (a map), or tell another result; sources to cite are then left out."""

    value: JsonValue


Verdict: TypeAlias = Allow | Refuse | Replace


class ToolGuard(Protocol):
    """Looks at every call of a tool, those of agents and canvases that are tools themselves too.

    A guard that raises, gives no verdict or takes too long refuses.
    """

    async def before(self, use: ToolUse) -> Verdict:
        """Judge a call that is about to be made."""
        ...

    async def after(self, use: ToolUse, result: JsonValue) -> Verdict:
        """Judge what a call gave, errors too, before the model is told."""
        ...


class ResultCache(Protocol):
    """Remembers what tools gave, for those that the deployment names."""

    async def find(
        self, names: Sequence[str], configuration: JsonValue, arguments: JsonValue
    ) -> tuple[bool, JsonValue]:
        """Give whether there is a result of the tool of these names, and the result, the caller's to keep."""
        ...

    async def put(
        self, names: Sequence[str], configuration: JsonValue, arguments: JsonValue, result: JsonValue
    ) -> None:
        """Remember a result (JSON) for a while, if the tool is one whose results are."""
        ...

    def covers(self, names: Sequence[str]) -> bool:
        """Tell whether results of the tool of these names are remembered at all."""
        ...


class ToolPolicies(Struct, frozen=True):
    """The policies around calls of tools."""

    permits: ToolPermits = ToolPermits()
    guards: tuple[ToolGuard, ...] = ()
    """Asked in order; what one replaces the next one sees."""
    cache: ResultCache | None = None
