"""The services of a run, and the Protocols of the small ones: files, clock, ids.

The implementations are in ``adapters``; tests bring their own. A component reaches them only through
``RunContext.services``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from msgspec import Struct, field

from ragflow_lg.base.ids import RunId
from ragflow_lg.services.chat import ChatModels
from ragflow_lg.services.http import HttpClient
from ragflow_lg.services.knowledge import Knowledge
from ragflow_lg.services.tool_policies import ToolPolicies
from ragflow_lg.services.tool_server import ToolServer, ToolSettings

__all__ = ["Caller", "Clock", "Files", "Ids", "Services"]


class Files(Protocol):
    """Reads uploaded files."""

    async def read(self, files: Sequence[Any], layout_recognize: str) -> list[str]:
        """Give each file as text or, for an image, as ``data:`` URI, in order."""
        ...


class Clock(Protocol):
    """Time, so that tests can hold it still."""

    def now(self) -> float:
        """Give epoch seconds."""
        ...

    def monotonic(self) -> float:
        """Give seconds that never go back."""
        ...

    def local_time(self) -> str:
        """Give the local time as ``YYYY-MM-DD HH:MM:SS``."""
        ...


class Ids(Protocol):
    """Fresh ids and seeds, so that tests can foresee them."""

    def run_id(self) -> RunId:
        """Give 32 hexadecimal digits."""
        ...

    def seed(self) -> int:
        """Give the seed of a turn, from 0 below 2**31. Seed 0 always draws the first alternative."""
        ...


@runtime_checkable
class SupportsClose(Protocol):
    """A service that holds connections."""

    async def aclose(self) -> None:
        """Free them."""
        ...


class Caller(NamedTuple):
    """Who asks a service: a node, or a tool that it calls. ``position`` tells apart what may ask at the same time.

    It names the rounds of the regions around, from outside, and a tool's call: ``"2.0/1.1"``.
    A node of a canvas that another node plays is named behind that node.
    """

    node: str = ""
    position: str = ""

    def within(self, outer: Caller) -> Caller:
        """Give the caller as it is known outside of the canvas that another caller plays.

        >>> Caller("LLM:A", "0").within(Caller("Canvas:N", "2/1.1"))
        Caller(node='Canvas:N/LLM:A', position='2/1.1>0')
        """
        if not outer.node:
            return self
        return Caller(f"{outer.node}/{self.node}", f"{outer.position}>{self.position}")


class Services(Struct, frozen=True):
    """All services of a run. ``for_caller`` gives them to one caller, where calls are told apart by who makes them."""

    models: ChatModels
    http: HttpClient
    files: Files
    clock: Clock
    ids: Ids
    tools: ToolSettings = field(default_factory=ToolSettings)
    policies: ToolPolicies = field(default_factory=ToolPolicies)
    for_caller: Callable[[Caller], Services] | None = None
    servers: Mapping[str, ToolServer] = field(default_factory=dict[str, ToolServer])
    """Servers of tools, by the id that canvases know them by."""
    knowledge: Knowledge | None = None
    """The datasets that Retrieval searches, None if the settings have none."""
    secrets: tuple[str, ...] = ()
    """Keys and passwords of the settings, so that nothing shows them."""

    def __repr__(self) -> str:
        """Show no secret."""
        return f"Services(servers={sorted(self.servers)})"

    @property
    def all_secrets(self) -> tuple[str, ...]:
        """The secrets, and the keys of tools."""
        return (*self.secrets, *self.tools.keys.values())
