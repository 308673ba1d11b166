"""What a canvas is compiled for: the deployment's permitted tools, MCP servers and other canvases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.services.tool_policies import ToolPermits


class CanvasSource(Struct, frozen=True):
    """The source of another canvas."""

    key: str
    """Identity of the canvas: equal for the same canvas, whatever name or path led to it."""
    label: str
    """Name of the canvas in messages."""
    content: bytes
    deployment: Deployment
    """The deployment as that canvas sees it: relative paths start at its own folder."""


class Deployment(Protocol):
    """The deployment that a canvas will run in, as seen from the canvas."""

    @property
    def key(self) -> str:
        """The `CanvasSource.key` of the canvas itself, ``""`` if it has no source."""
        ...

    @property
    def permits(self) -> ToolPermits:
        """The tools that agents may call."""
        ...

    @property
    def servers(self) -> Mapping[str, Sequence[str] | None] | None:
        """The permitted tools of each MCP server by id, None for all tools; None if the servers are unknown."""
        ...

    def canvas_by_name(self, name: str) -> CanvasSource:
        """Return the canvas with a name.

        Raises:
            SettingsError: if there is no such canvas, or it cannot be read.
        """
        ...

    def canvas_at_path(self, path: str) -> CanvasSource:
        """Return the canvas at a path, relative to the folder of this canvas.

        Raises:
            SettingsError: if this canvas may not read the path, or it cannot be read.
        """
        ...


class NoDeployment:
    """A deployment that permits all tools, knows no servers and has no other canvases."""

    key = ""
    permits = ToolPermits()
    servers = None

    def canvas_by_name(self, name: str) -> CanvasSource:
        """Raise SettingsError."""
        raise SettingsError(f"No canvas is named {name!r}: this canvas is compiled without settings.")

    def canvas_at_path(self, path: str) -> CanvasSource:
        """Raise SettingsError."""
        raise SettingsError(f"{path!r} cannot be resolved: this canvas was not read from a file.")
