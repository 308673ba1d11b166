"""Canvas files, and the other canvases that they may play."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.dsl_compiler.deployment import CanvasSource
from ragflow_lg.dsl_compiler.source import MAX_BYTES

if TYPE_CHECKING:
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.services.tool_policies import ToolPermits

__all__ = ["NO_CANVAS", "CanvasFiles", "canvas_files", "read_canvas"]

NO_CANVAS = "langgraph.json"
"""The one JSON file beside canvases that is none: `ragflow-lg studio` writes it there, for LangGraph's tools."""


class CanvasFiles:
    """The `ragflow_lg.dsl_compiler.deployment.Deployment` of the settings, as a canvas file sees it.

    A canvas plays those that the settings name, and the ``.json`` files in its own folder and below: whoever writes
    a canvas decides neither where it is put nor what else is read on the machine.
    """

    def __init__(
        self, settings: Callable[[], Settings], path: Path | None = None, *, asks_servers: bool = True
    ) -> None:
        """``settings`` are read when something is asked of them. ``path`` is that of the canvas, if it has one.

        ``asks_servers``: whether the canvas will call the MCP servers of the settings, and no others.
        """
        self._settings = cache(settings)
        self._path = None if path is None else path.absolute()
        self._asks_servers = asks_servers
        self._asked: dict[str, object] = {}
        self.has_loaded = False
        """Whether another canvas was asked for."""

    @property
    def key(self) -> str:
        """The canvas's own path, links followed."""
        return "" if self._path is None else str(self._path.resolve())

    @property
    def permits(self) -> ToolPermits:
        """Which tools agents may call."""
        permits = self._settings().permits
        self._asked["permits"] = permits
        return permits

    @property
    def servers(self) -> Mapping[str, tuple[str, ...] | None] | None:
        """The MCP servers of the settings, and the tools that each lets be called."""
        servers = None
        if self._asks_servers:
            servers = {id_: section.allow for id_, section in self._settings().mcp.items()}
        self._asked["servers"] = servers
        return servers

    @property
    def asked(self) -> Mapping[str, object]:
        """What was asked of the settings, by the property's name, and what they said."""
        return dict(self._asked)

    def says(self, asked: Mapping[str, object]) -> bool:
        """Tell whether the settings would say the same as others have; what was not asked is not looked at."""
        return all(getattr(self, name) == said for name, said in asked.items())

    def canvas_by_name(self, name: str) -> CanvasSource:
        """Give a canvas of the settings.

        Raises:
            SettingsError: if there is none of this name, or it cannot be read.
        """
        self.has_loaded = True
        canvases = self._settings().canvases
        path = canvases.get(name)
        if path is None:
            near = get_close_matches(name, canvases, n=1)
            meant = f" Did you mean {near[0]!r}?" if near else ""
            raise SettingsError(f"The settings name no canvas {name!r} under [canvases].{meant}")
        return self._found(path.absolute().resolve(), name)

    def canvas_at_path(self, path: str) -> CanvasSource:
        """Give a canvas of this one's folder.

        Raises:
            SettingsError: if it is not there, or not to be read from here.
        """
        self.has_loaded = True
        if self._path is None:
            raise SettingsError(f"{path!r} cannot be found: this canvas was not read from a file.")
        folder = self._path.parent.resolve()
        try:
            file = (folder / path).resolve()
            file.is_file()
        except (ValueError, OSError, RuntimeError):
            raise SettingsError(f"{path!r} is no path of a file.") from None
        if Path(path).is_absolute() or not file.is_relative_to(folder):
            raise SettingsError(f"{path!r} leads out of the folder of the canvas, which no canvas may.")
        if file.suffix.lower() != ".json":
            raise SettingsError(f"{path!r} is no canvas: the name of its file has to end in .json.")
        return self._found(file, str(file.relative_to(folder)))

    def _found(self, file: Path, label: str) -> CanvasSource:
        if not file.is_file():
            raise SettingsError(f"The canvas {label!r} cannot be read: there is no such file.")
        return CanvasSource(
            str(file), label, read_canvas(file), CanvasFiles(self._settings, file, asks_servers=self._asks_servers)
        )


def canvas_files(folder: Path) -> list[Path]:
    """Give the JSON files of a folder that may be canvases."""
    return sorted(path for path in folder.glob("*.json") if path.name != NO_CANVAS)


def read_canvas(path: Path) -> bytes:
    """Read a file, of a too large one no more than is needed to say so.

    Raises:
        SettingsError: if it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
    except ValueError as error:  # a path that no system has
        reason = str(error)
    raise SettingsError(f"{str(path)!r} cannot be read: {reason}.")
