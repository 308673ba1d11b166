"""The files that LangGraph's tools ask for: ``langgraph.json``, and a module with a graph for each canvas."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.assembly.canvas_files import NO_CANVAS
from ragflow_lg.server.studio.found_canvases import Canvas

__all__ = ["CONFIG", "MODULE", "write_project"]

CONFIG = NO_CANVAS
MODULE = "ragflow_lg_studio.py"

_MARK = "Written by `ragflow-lg studio`"


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
            f"{str(config)!r} is your own, not ours to write: name another folder by --output, and copy from there."
        )
    wanted = {config: _config(canvases, held, keeps_sessions), module: _module(folder, canvases, model, keeps_sessions)}
    is_new = False
    for path, text in wanted.items():
        if _read(path) != text:
            is_new = True
            _write(path, text)
    return config, is_new


def _write(path: Path, text: str) -> None:
    """Write all of it, or nothing."""
    beside = path.resolve().with_name(f".{path.name}.new")  # no .py: the server watches those
    try:
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, path.resolve())
    except (OSError, ValueError) as error:
        beside.unlink(missing_ok=True)
        raise SettingsError(f"{str(path)!r} cannot be written: {error}.") from None


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise SettingsError(f"{str(path)!r} cannot be read: {error}.") from None


def _is_ours(text: str) -> bool:
    graphs = _map(_map(_parsed(text)).get("graphs"))
    return bool(graphs) and all(_leads_here(graph) for graph in graphs.values())


def _leads_here(target: Any) -> bool:
    """Whether something in a config is of our module."""
    path = _map(target).get("path", target)
    return isinstance(path, str) and path.partition(":")[0] == f"./{MODULE}"


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
    saver = config.pop("checkpointer", None)
    if saver is not None and not _leads_here(saver):
        config["checkpointer"] = saver
    elif keeps_sessions:
        config["checkpointer"] = {**_map(saver), "path": f"./{MODULE}:open_sessions"}
    return json.dumps(config, indent=2, ensure_ascii=False) + "\n"


def _module(folder: Path, canvases: Sequence[Canvas], model: str, keeps_sessions: bool) -> str:
    imported = "canvas_factory, open_sessions" if keeps_sessions else "canvas_factory"
    exported = [canvas.graph for canvas in canvases] + (["open_sessions"] if keeps_sessions else [])
    given = f", model={_text(model)}" if model else ""
    lines = [
        f'"""{_MARK}: a LangGraph graph for each canvas. Run it again to write it anew."""',
        "",
        "from pathlib import Path",
        "",
        f"from ragflow_lg.server.studio import {imported}",
        "",
        f"__all__ = {json.dumps(exported)}",
        "",
        "FOLDER = Path(__file__).parent",
        "",
        *(f"{c.graph} = canvas_factory(FOLDER / {_text(_relative(c.file, folder))}{given})" for c in canvases),
    ]
    return "\n".join(lines) + "\n"


def _text(value: str) -> str:
    """Write a text as Python does; escapes of JSON would make two characters of some."""
    return json.dumps(value, ensure_ascii=False)


def _relative(file: Path, folder: Path) -> str:
    """Name the file as seen from the folder; where there is no way, from the root."""
    whole, base = file.absolute(), folder.absolute()
    try:
        return whole.relative_to(base).as_posix()
    except ValueError:
        return whole.as_posix()
