"""The files that LangGraph's tools read: ``langgraph.json`` and a module with a graph for each canvas."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.base.local_paths import replace_file
from ragflow_lg.integrations.studio.canvas_discovery import Canvas
from ragflow_lg.server.assembly.canvas_files import NO_CANVAS

CONFIG = NO_CANVAS
MODULE = "ragflow_lg_studio.py"

CORS = {
    "allow_origins": ["https://smith.langchain.com"],
    "allow_origin_regex": r"https?://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?",
    "allow_methods": ["*"],
    "allow_headers": ["*"],
    "expose_headers": ["x-pagination-total", "x-pagination-next", "content-location"],
}
"""Pages that may read from LangGraph's server, which has no keys: LangGraph's own, and those on this machine. Users
can add others to the file."""

_STORES: Mapping[str, str] = {"checkpointer": "open_sessions", "store": "open_memories"}
"""The functions that open the sessions and the memories, by the entries of the config that name them."""

_MARK = "Written by `ragflow-lg studio`"


def write_project(
    folder: Path, canvases: Sequence[Canvas], *, model: str = "", uses_store: bool = True
) -> tuple[Path, bool]:
    """Write both files; return the path of the config and whether any content changed.

    With ``uses_store``, sessions and memories are in the store from the settings, otherwise in LangGraph's server.

    Raises:
        SettingsError: If one of the files was not written by this command, or they cannot be written.
    """
    config, module = folder / CONFIG, folder / MODULE
    old_config, old_module = _read(config), _read(module)
    if old_module is not None and _MARK not in old_module:
        raise SettingsError(
            f"{str(module)!r} was not written by this command: move it, or use another folder with --output."
        )
    if old_config is not None and not _is_ours(old_config):
        raise SettingsError(
            f"{str(config)!r} was not written by this command: use another folder with --output and copy from there."
        )
    files = {config: _config(canvases, old_config, uses_store), module: _module(folder, canvases, model, uses_store)}
    has_changed = False
    for path, text in files.items():
        if _read(path) != text:
            has_changed = True
            _write(path, text)
    return config, has_changed


def _write(path: Path, text: str) -> None:
    try:
        replace_file(path.resolve(), text.encode())
    except (OSError, ValueError) as error:
        raise SettingsError(f"{str(path)!r} cannot be written: {getattr(error, 'strerror', None) or error}.") from None


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise SettingsError(f"{str(path)!r} cannot be read: {error}.") from None


def _is_ours(text: str) -> bool:
    graphs = _map(_map(_parse(text)).get("graphs"))
    return bool(graphs) and all(_is_in_module(graph) for graph in graphs.values())


def _is_in_module(target: Any) -> bool:
    """Return whether a config entry refers to our module."""
    path = _map(target).get("path", target)
    return isinstance(path, str) and path.partition(":")[0] == f"./{MODULE}"


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise SettingsError(f"{CONFIG} is not valid JSON: fix or delete it.") from None


def _map(value: Any) -> dict[str, Any]:
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else {}


def _config(canvases: Sequence[Canvas], old: str | None, uses_store: bool) -> str:
    """Return the text of the config. Entries that a user added to the old config are preserved."""
    config: dict[str, Any] = {"dependencies": ["."], **_map(_parse(old) if old else {})}
    config["graphs"] = {
        canvas.graph: {"path": f"./{MODULE}:{canvas.graph}", "description": canvas.title} for canvas in canvases
    }
    config["http"] = {"cors": CORS, **_map(config.get("http"))}
    for name, function in _STORES.items():
        store = config.pop(name, None)
        if store is not None and not _is_in_module(store):
            config[name] = store
        elif uses_store:
            config[name] = {**_map(store), "path": f"./{MODULE}:{function}"}
    return json.dumps(config, indent=2, ensure_ascii=False) + "\n"


def _module(folder: Path, canvases: Sequence[Canvas], model: str, uses_store: bool) -> str:
    stores = sorted(_STORES.values()) if uses_store else []
    imported = ", ".join(["canvas_factory", *stores])
    exported = [*(canvas.graph for canvas in canvases), *stores]
    model_argument = f", model={_text(model)}" if model else ""
    lines = [
        f'"""{_MARK}: a LangGraph graph for each canvas. Run the command again to update it."""',
        "",
        "from pathlib import Path",
        "",
        f"from ragflow_lg.integrations.studio.graph_factories import {imported}",
        "",
        f"__all__ = {json.dumps(exported)}",
        "",
        "FOLDER = Path(__file__).parent",
        "",
        *(f"{c.graph} = canvas_factory(FOLDER / {_text(_relative(c.file, folder))}{model_argument})" for c in canvases),
    ]
    return "\n".join(lines) + "\n"


def _text(value: str) -> str:
    """Return a text as a Python literal. JSON's ASCII escapes would split characters outside the BMP in two."""
    return json.dumps(value, ensure_ascii=False)


def _relative(file: Path, folder: Path) -> str:
    """Return the path relative to the folder, or the absolute path if the file is on another drive."""
    try:
        return Path(os.path.relpath(file, folder)).as_posix()
    except ValueError:
        return file.absolute().as_posix()
