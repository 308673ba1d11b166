"""What the compiler may ask of the deployment it compiles for: permitted tools, servers of tools, other canvases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.services.tool_policies import ToolPermits

__all__ = ["Deployment", "CanvasSource", "NoDeployment"]


class CanvasSource(Struct, frozen=True):
    """Another canvas. ``key`` is the same for the same canvas, however it is named; ``label`` is for people."""

    key: str
    label: str
    content: bytes
    deployment: Deployment
    """The deployment as that canvas sees it: paths begin at its own folder."""


class Deployment(Protocol):
    """Where a canvas is going to run, as seen from where it stands."""

    @property
    def key(self) -> str:
        """The `CanvasSource.key` of the canvas itself, ``""`` if it came from nowhere."""
        ...

    @property
    def permits(self) -> ToolPermits:
        """Which tools agents may call."""
        ...

    @property
    def servers(self) -> Mapping[str, Sequence[str] | None] | None:
        """The servers of tools by id, with the tools that each lets be called, None for all; None if nobody knows."""
        ...

    def canvas_by_name(self, name: str) -> CanvasSource:
        """Give the canvas of a name.

        Raises:
            SettingsError: if there is none, or it cannot be read.
        """
        ...

    def canvas_at_path(self, path: str) -> CanvasSource:
        """Give the canvas of a path that begins where this canvas stands.

        Raises:
            SettingsError: if it is not to be read from here, or cannot be.
        """
        ...


class NoDeployment:
    """Permits all tools, knows nothing of servers, and has no other canvases."""

    key = ""
    permits = ToolPermits()
    servers = None

    def canvas_by_name(self, name: str) -> CanvasSource:
        """Refuse."""
        raise SettingsError(f"There is no canvas {name!r}: this canvas is compiled without settings.")

    def canvas_at_path(self, path: str) -> CanvasSource:
        """Refuse."""
        raise SettingsError(f"{path!r} cannot be found: this canvas was not read from a file.")
