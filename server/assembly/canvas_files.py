"""Canvas files and the other canvases that they can run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ragflow_lg.adapters.chat.chat_settings import is_demo
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.base.local_paths import suggest_file
from ragflow_lg.dsl.compatibility import Compatibility
from ragflow_lg.dsl_compiler.deployment import NO_LIMITS, CanvasLimits, CanvasSource
from ragflow_lg.dsl_compiler.source import MAX_BYTES

if TYPE_CHECKING:
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.services.tool_policies import ToolPermits

_T = TypeVar("_T")
_CANVAS_KEYS = ('"components"', '"graph"', '"dsl"')

NO_CANVAS = "langgraph.json"
"""A JSON file that is not a canvas: `ragflow-lg studio` writes it next to canvases for LangGraph's tools."""


class CanvasFiles:
    """The `ragflow_lg.dsl_compiler.deployment.Deployment` that the settings describe, as seen from a canvas file.

    A canvas can run the canvases named in the settings and the ``.json`` files in its own folder and below. Canvas
    authors must not be able to read any other files on the machine.
    """

    def __init__(
        self,
        settings: Callable[[], Settings],
        path: Path | None = None,
        *,
        asks_servers: bool = True,
        compatibility: Compatibility | None = None,
        limits: CanvasLimits = NO_LIMITS,
    ) -> None:
        """Initialize. The settings are loaded when they are first needed. ``path`` is the canvas's, if it has one.

        ``asks_servers`` says that the canvas will call only the MCP servers in the settings. ``compatibility`` replaces
        the section of the settings. The ``limits`` are not those of other canvases that it runs.
        """
        self._settings = cache(settings)
        self._path = None if path is None else path.absolute()
        self._asks_servers = asks_servers
        self._compatibility = compatibility
        self.limits = limits
        self._rules: dict[str, object] = {}
        self.has_loaded = False
        """Whether another canvas has been requested."""

    @property
    def key(self) -> str:
        """The canvas's own path, with symbolic links resolved."""
        return "" if self._path is None else str(self._path.resolve())

    @property
    def permits(self) -> ToolPermits:
        """Which tools agents are allowed to call."""
        return self._note("permits", self._settings().permits)

    @property
    def servers(self) -> Mapping[str, tuple[str, ...] | None] | None:
        """The MCP servers in the settings, with the tools that each of them allows. A demo calls none of them."""
        servers = None
        if self._asks_servers and not is_demo(self._settings().override_model):
            servers = {id_: section.allow for id_, section in self._settings().tool_servers.items()}
        return self._note("servers", servers)

    @property
    def compatibility(self) -> Compatibility:
        """The behaviours of RAGFlow that apply unless a canvas chooses others."""
        return self._note("compatibility", self._compatibility or self._settings().compatibility)

    def _note(self, rule: str, value: _T) -> _T:
        self._rules[rule] = value
        return value

    @property
    def rules(self) -> Mapping[str, object]:
        """The values of the settings that have been requested, by property name."""
        return dict(self._rules)

    def matches(self, rules: Mapping[str, object]) -> bool:
        """Check whether the settings have the same values. Settings that are not in ``rules`` are ignored."""
        return all(getattr(self, name) == value for name, value in rules.items())

    def canvas_by_name(self, name: str) -> CanvasSource:
        """Return a canvas named in the settings.

        Raises:
            SettingsError: If there is no such canvas in the settings, or it cannot be read.
        """
        self.has_loaded = True
        canvases = self._settings().canvases
        path = canvases.get(name)
        if path is None and (tenant := self._settings().tenant):
            raise SettingsError(
                f"The tenant {tenant!r} has no canvas {name!r}. "
                f'Canvases are shared as canvases.NAME in keys of [tenants."{tenant}"].'
            )
        if path is None:
            near = get_close_matches(name, canvases, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise SettingsError(f"There is no canvas {name!r} under [canvases] in the settings.{hint}")
        return self._load(path.absolute().resolve(), name)

    def canvas_at_path(self, path: str) -> CanvasSource:
        """Return a canvas from this canvas's folder.

        Raises:
            SettingsError: If it does not exist or must not be read from here.
        """
        self.has_loaded = True
        if self._path is None:
            raise SettingsError(f"{path!r} cannot be found: this canvas was not read from a file.")
        folder = self._path.parent.resolve()
        try:
            file = (folder / path).resolve()
            file.is_file()
        except (ValueError, OSError, RuntimeError):
            raise SettingsError(f"{path!r} is not a valid file path.") from None
        if Path(path).is_absolute() or not file.is_relative_to(folder):
            raise SettingsError(f"{path!r} is outside the canvas's folder, which is the only one it can use.")
        if file.suffix.lower() != ".json":
            raise SettingsError(f"{path!r} is not a canvas: the file name must end in .json.")
        return self._load(file, str(file.relative_to(folder)))

    def _load(self, file: Path, label: str) -> CanvasSource:
        if not file.is_file():
            raise SettingsError(f"The canvas {label!r} cannot be read: no such file.")
        files = CanvasFiles(self._settings, file, asks_servers=self._asks_servers, compatibility=self._compatibility)
        return CanvasSource(str(file), label, read_canvas(file), files)


def canvas_files(folder: Path) -> list[Path]:
    """Return the JSON files in a folder that may be canvases."""
    return sorted(path for path in folder.glob("*.json") if path.name != NO_CANVAS)


def find_canvases(folder: Path) -> list[Path]:
    """Return the canvases in a folder and below. Hidden folders and JSON files that are not canvases are left out."""
    files = [file for file in folder.rglob("*.json") if file.name != NO_CANVAS and file.is_file()]
    visible = [f for f in files if not any(part.startswith(".") for part in f.relative_to(folder).parts)]
    return sorted(filter(is_canvas, visible))


def is_canvas(file: Path) -> bool:
    """Return whether a JSON file has a key that canvases have.

    Raises:
        SettingsError: If it cannot be read.
    """
    return may_be_canvas(read_canvas(file).decode("utf-8", "replace"))


def may_be_canvas(text: str) -> bool:
    """Return whether a JSON text has a key that canvases have."""
    return any(key in text for key in _CANVAS_KEYS)


def read_canvas(path: Path) -> bytes:
    """Read a file. If it is too large, read only enough of it to show that.

    Raises:
        SettingsError: If it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except IsADirectoryError:
        raise SettingsError(f"{str(path)!r} is a folder. Name one of the canvas files in it.") from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
    except ValueError as error:  # a path that is invalid on every system
        raise SettingsError(f"{str(path)!r} cannot be read: {error}.") from None
    raise SettingsError(f"{str(path)!r} cannot be read: {reason}.{suggest_file(path)}")
