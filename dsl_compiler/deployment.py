"""The deployment that a canvas is compiled for: its permitted tools, MCP servers and other canvases."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.dsl.compatibility import Compatibility
from ragflow_lg.services.tool_policies import ToolPermits


class CanvasLimits(Struct, frozen=True):
    """Limits on the size of a canvas. The first one is a setting."""

    canvas_bytes: int = 4 * 1024 * 1024
    """Maximum number of characters in the document."""
    canvas_components: int = 2_000
    canvas_list: int = 10_000
    """Maximum number of entries in one list of the parameters."""
    canvas_entries: int = 100_000
    """Maximum number of list entries and map keys in all parameters."""
    canvas_chars: int = 2 * 1024 * 1024
    """Maximum number of characters in the texts of all parameters, templates included."""
    canvas_references: int = 20_000
    """Maximum number of references, counted as opening braces, in all parameters."""


NO_LIMITS = CanvasLimits(*[sys.maxsize] * 6)
"""For canvases of the operator, or of the program that compiles them."""


class CanvasSource(Struct, frozen=True):
    """The source of another canvas."""

    key: str
    """Identity of the canvas: always the same for a canvas, no matter which name or path refers to it."""
    label: str
    """The canvas's name in messages."""
    content: bytes
    deployment: Deployment
    """The deployment as seen from that canvas: relative paths start at its own folder."""


class Deployment(Protocol):
    """The deployment that a canvas will run in, as seen from the canvas."""

    @property
    def key(self) -> str:
        """The `CanvasSource.key` of the canvas itself, or ``""`` if it has no source."""
        ...

    @property
    def permits(self) -> ToolPermits:
        """The tools that agents are allowed to call."""
        ...

    @property
    def servers(self) -> Mapping[str, Sequence[str] | None] | None:
        """The permitted tools of each MCP server, by server id (None permits all); None if the servers are unknown."""
        ...

    @property
    def compatibility(self) -> Compatibility:
        """The behaviours of RAGFlow that apply unless a canvas chooses others."""
        ...

    @property
    def limits(self) -> CanvasLimits:
        """The limits on the size of the canvas."""
        ...

    def canvas_by_name(self, name: str) -> CanvasSource:
        """Return the canvas with the given name.

        Raises:
            SettingsError: if there is no such canvas or it cannot be read.
        """
        ...

    def canvas_at_path(self, path: str) -> CanvasSource:
        """Return the canvas at a path, which is relative to this canvas's folder.

        Raises:
            SettingsError: if this canvas is not allowed to read the path, or the path cannot be read.
        """
        ...


class NoDeployment:
    """A deployment that permits all tools, has no limits, knows no servers and has no other canvases."""

    key = ""
    permits = ToolPermits()
    servers = None
    compatibility = Compatibility()
    limits = NO_LIMITS

    def canvas_by_name(self, name: str) -> CanvasSource:
        """Raise SettingsError."""
        raise SettingsError(f"There is no canvas named {name!r}: this canvas was compiled without settings.")

    def canvas_at_path(self, path: str) -> CanvasSource:
        """Raise SettingsError."""
        raise SettingsError(f"{path!r} cannot be resolved: this canvas was not read from a file.")
