"""Which folders the user trusts: their settings are used, and files that LangGraph's server left in them are loaded.

For a folder pulled from a RAGFlow, the list contains which server may receive which key.

Settings can start programs and decide which server receives a key, and the folder may have come with somebody else's
canvases. The list is a file of the user's; nothing in a folder can add it to the list.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal, cast

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.base.local_paths import replace_file

Kind = Literal["settings", "studio", "ragflow"]

_ask: ContextVar[Callable[[Path], bool] | None] = ContextVar("ask", default=None)


@contextmanager
def asking(ask: Callable[[Path], bool]) -> Generator[None]:
    """Call ``ask`` with the folder if its settings would be used but are not trusted, and trust it after True."""
    mark = _ask.set(ask)
    try:
        yield
    finally:
        _ask.reset(mark)


def list_file() -> Path:
    """Return the path of the list of trusted folders."""
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "ragflow-lg" / "trusted.json"


def require_trust(file: Path) -> None:
    """Check that the settings file of the working folder may be used.

    Raises:
        SettingsError: If its folder is not trusted, and nobody can be asked or the answer was no.
    """
    folder = file.absolute().parent
    if is_trusted("settings", folder):
        return
    ask = _ask.get()
    if ask is not None and ask(folder):
        trust("settings", folder)
        return
    raise SettingsError(
        f"The settings in {str(file)!r} are not used, because the folder is not trusted: settings can start programs"
        " and decide which server receives your keys. If you know them, run `ragflow-lg trust`, or name the file with"
        " --settings or RAGFLOW_LG_SETTINGS."
    )


def is_trusted(kind: Kind, folder: Path, mark: str = "") -> bool:
    """Return whether a folder is in the list, with this mark."""
    return _read().get(kind, {}).get(str(folder.resolve())) == mark


def trust(kind: Kind, folder: Path, mark: str = "") -> None:
    """Add a folder to the list.

    Raises:
        SettingsError: If the list cannot be written.
    """
    entries = _read()
    entries.setdefault(kind, {})[str(folder.resolve())] = mark
    _write(entries)


def distrust(kind: Kind, folder: Path) -> bool:
    """Remove a folder from the list. Return False if it was not there.

    Raises:
        SettingsError: If the list cannot be written.
    """
    entries = _read()
    if entries.get(kind, {}).pop(str(folder.resolve()), None) is None:
        return False
    _write(entries)
    return True


def _read() -> dict[str, dict[str, str]]:
    try:
        value: Any = json.loads(list_file().read_text("utf-8"))
    except (OSError, ValueError, RuntimeError, RecursionError):  # without a list or a home, no folder is trusted
        return {}
    sections = cast("dict[str, Any]", value if isinstance(value, dict) else {})
    return {kind: dict(cast("dict[str, str]", part)) for kind, part in sections.items() if isinstance(part, dict)}


def _write(entries: dict[str, dict[str, str]]) -> None:
    try:
        file = list_file()
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        content = json.dumps(entries, indent=2, ensure_ascii=False) + "\n"
        replace_file(file, content.encode(), is_private=True)
    except (OSError, RuntimeError) as error:
        raise SettingsError(
            f"The list of trusted folders cannot be written: {getattr(error, 'strerror', None) or error}."
        ) from None
