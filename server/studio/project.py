"""The files that LangGraph's tools ask for: ``langgraph.json``, and a module with a graph for each canvas."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from ragflow_lg.errors import CompileError, SettingsError
from server.library import sketch_file

__all__ = ["CONFIG", "MODULE", "Canvas", "Project", "Watched", "find_canvases", "write_project"]

CONFIG = "langgraph.json"
MODULE = "ragflow_lg_studio.py"

_MARK = "Written by `ragflow-lg studio`"
_NO_NAME = re.compile(r"\W+", re.ASCII)
_MAX_CANVASES = 1_000


class Canvas(Struct, frozen=True):
    """A canvas file, the id of its graph, and its title."""

    file: Path
    graph: str
    title: str


class Project(Struct, frozen=True):
    """What is to be written. ``left_out`` says of files what keeps them out."""

    canvases: tuple[Canvas, ...]
    left_out: Mapping[Path, str]


class Watched:
    """The files of a place, to see when canvases come or go. One that only changes is read anew by its factory."""

    def __init__(self, place: Path, project: Project) -> None:
        self._place = place
        self.look(project)

    def look(self, project: Project) -> None:
        """Remember the files as they are."""
        self._left_out = set(project.left_out)
        self._seen = self._now()

    def have_changed(self) -> bool:
        """Whether a file has come or gone, or one that was left out is another now."""
        return self._now() != self._seen

    def _now(self) -> dict[Path, int]:
        return {file: file.stat().st_mtime_ns if file in self._left_out else 0 for file in _files(self._place)}


def find_canvases(place: Path) -> Project:
    """Find the canvases of a file or folder.

    Raises:
        SettingsError: if there are none, or too many.
        CompileError: if the one file that is named is no canvas.
    """
    files = _files(place)
    if len(files) > _MAX_CANVASES:
        raise SettingsError(
            f"{str(place)!r} has {len(files):,} JSON files; at most {_MAX_CANVASES:,} are served at once."
        )
    canvases: list[Canvas] = []
    left_out: dict[Path, str] = {}
    names: dict[str, int] = {}
    for file in files:
        try:
            plan, diagnostics = sketch_file(file)
            if plan is None:
                raise CompileError(diagnostics)
        except (CompileError, SettingsError) as error:
            if not place.is_dir():
                raise
            left_out[file] = str(error)
            continue
        name = _name(file.stem)
        names[name] = names.get(name, 0) + 1
        canvases.append(Canvas(file, name if names[name] == 1 else f"{name}_{names[name]}", plan.title or file.stem))
    if not canvases:
        found = f"; {len(left_out)} files are none" if left_out else ""
        raise SettingsError(f"There is no canvas in {str(place)!r}{found}.")
    return Project(tuple(canvases), left_out)


def _files(place: Path) -> list[Path]:
    return sorted(path for path in place.glob("*.json") if path.name != CONFIG) if place.is_dir() else [place]


def _name(stem: str) -> str:
    """Give a name that a Python module can have; different letters stay different."""
    plain = "".join(c if c.isascii() else f"_{ord(c):x}_" for c in stem)
    name = _NO_NAME.sub("_", plain).strip("_").lower() or "canvas"
    return f"canvas_{name}" if name[0].isdigit() else name


def write_project(
    folder: Path, canvases: Sequence[Canvas], *, model: str = "", keeps_sessions: bool = True
) -> tuple[Path, bool]:
    """Write both files; give the path of the config, and whether anything is new.

    ``keeps_sessions``: whether sessions are kept where the settings say, not where LangGraph's server keeps its own.

    Raises:
        SettingsError: if somebody else has written one of them, or they cannot be written.
    """
    config, module = folder / CONFIG, folder / MODULE
    held, written = _read(config), _read(module)
    if written is not None and _MARK not in written:
        raise SettingsError(f"{str(module)!r} is not ours to write: move it, or name another folder by --output.")
    if held is not None and not _is_ours(held):
        raise SettingsError(
            f"{str(config)!r} has graphs of your own: name another folder by --output, and copy from there."
        )
    wanted = {config: _config(canvases, held, keeps_sessions), module: _module(folder, canvases, model, keeps_sessions)}
    is_new = False
    for path, text in wanted.items():
        if _read(path) != text:
            is_new = True
            try:
                path.write_text(text, encoding="utf-8")
            except OSError as error:
                raise SettingsError(f"{str(path)!r} cannot be written: {error.strerror}.") from None
    return config, is_new


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise SettingsError(f"{str(path)!r} cannot be read: {error}.") from None


def _is_ours(text: str) -> bool:
    return all(isinstance(graph, str | dict) and MODULE in json.dumps(graph) for graph in _graphs(text).values())


def _graphs(text: str) -> Mapping[str, Any]:
    return _map(_map(_parsed(text)).get("graphs"))


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise SettingsError(f"{CONFIG} is no JSON: mend or delete it.") from None


def _map(value: Any) -> dict[str, Any]:
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else {}


def _config(canvases: Sequence[Canvas], held: str | None, keeps_sessions: bool) -> str:
    """What somebody has added to a config of ours stays."""
    config: dict[str, Any] = {"dependencies": ["."], **_map(_parsed(held) if held else {})}
    config["graphs"] = {
        canvas.graph: {"path": f"./{MODULE}:{canvas.graph}", "description": canvas.title} for canvas in canvases
    }
    config.pop("checkpointer", None)
    if keeps_sessions:
        config["checkpointer"] = {"path": f"./{MODULE}:open_sessions"}
    return json.dumps(config, indent=2, ensure_ascii=False) + "\n"


def _module(folder: Path, canvases: Sequence[Canvas], model: str, keeps_sessions: bool) -> str:
    imported = "canvas_factory, open_sessions" if keeps_sessions else "canvas_factory"
    exported = [canvas.graph for canvas in canvases] + (["open_sessions"] if keeps_sessions else [])
    given = f", model={json.dumps(model)}" if model else ""
    lines = [
        f'"""{_MARK}: a LangGraph graph for each canvas. Run it again to write it anew."""',
        "",
        "from pathlib import Path",
        "",
        f"from server.studio import {imported}",
        "",
        f"__all__ = {json.dumps(exported)}",
        "",
        "FOLDER = Path(__file__).parent",
        "",
        *(f"{c.graph} = canvas_factory(FOLDER / {json.dumps(_relative(c.file, folder))}{given})" for c in canvases),
    ]
    return "\n".join(lines) + "\n"


def _relative(file: Path, folder: Path) -> str:
    """Name the file as seen from the folder; where there is no way, from the root."""
    whole, base = file.absolute(), folder.absolute()
    try:
        return whole.relative_to(base).as_posix()
    except ValueError:
        return whole.as_posix()
