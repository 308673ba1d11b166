"""Loads the settings from a file and the environment, and reports any problems in them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

import pydantic
import pydantic_settings

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.base.local_paths import suggest_file
from ragflow_lg.component.integration import find_integrations
from ragflow_lg.server.settings import dotenv_file
from ragflow_lg.server.settings.model_files import describe_fault, read_file
from ragflow_lg.server.settings.settings import PREFIX, Settings
from ragflow_lg.server.settings.trusted_folders import require_trust

_FIELD = re.compile(r'field "(\w+)"')

FILE_VARIABLE = "RAGFLOW_LG_SETTINGS"
"""The variable that contains the path of the settings file."""

LOCAL_FILE = "ragflow-lg.toml"
"""The settings file of the working folder. It is used if the user trusts the folder."""

MAX_NAME = 80

_METRICS = 'unknown setting. Write metrics_address = "HOST:PORT", or set metrics_key.'
_SUCCESSORS: dict[str, str] = dict.fromkeys(("server.metrics", "server.metrics_host", "server.metrics_port"), _METRICS)
_SUCCESSORS["otel.enabled"] = "unknown setting. An exporter alone turns spans on; without one, there are none."
"""What replaces settings of earlier versions."""


def unknown_variables(settings: Iterable[str]) -> list[str]:
    """Return a line for each variable that looks like a setting but is not one. Values are not shown."""
    names = {*(name.upper() for name in settings), FILE_VARIABLE.removeprefix(PREFIX)}
    problems: list[str] = []
    for variable in sorted(os.environ):
        first = variable.upper().removeprefix(PREFIX).partition("__")[0]
        if not variable.upper().startswith(PREFIX) or first in names:
            continue
        near = get_close_matches(first[:MAX_NAME], names, n=1, cutoff=0.7)
        rest = variable[len(PREFIX) + len(first) :]
        hint = f" Did you mean {PREFIX}{near[0]}{rest}?" if near else " Unset it or correct its name."
        problems.append(f"  {variable}: unknown setting.{hint}")
    return problems


def variable_name(place: Sequence[str | int]) -> str:
    """Return the variable that sets a given setting or an enclosing table, or ``""`` if none does."""
    variables = {name.upper(): name for name in os.environ}
    names = ("__".join([PREFIX + str(place[0]), *map(str, place[1:end])]) for end in range(len(place), 0, -1))
    return next((variables[name.upper()] for name in names if name.upper() in variables), "")


def load_settings(path: Path | None = None) -> Settings:
    """Load the settings. A ``.env`` beside them adds variables to the environment of this process.

    Raises:
        SettingsError: If the file is missing or is not TOML (the message gives the file and line), or if a setting is
            unknown or invalid (the message gives the setting, but never its value).
    """
    file = _find(path)
    if variables := dotenv_file.find_file(file, _own_file()):
        dotenv_file.load_variables(variables)
    values: dict[str, Any] = read_file(file) if file is not None else {}
    if file is not None:
        folder = file.parent.absolute()
        values = _from_folder(values, folder)
        if isinstance(paths := values.get("canvases"), dict):
            canvases = cast("dict[str, Any]", paths).items()
            values["canvases"] = {n: folder / _home(Path(p)) if isinstance(p, str) else p for n, p in canvases}
    problems = unknown_variables(Settings.model_fields)
    is_unknown = bool(problems)
    try:
        settings = Settings(**values)
        if not problems:
            return settings
    except pydantic.ValidationError as error:
        for fault in error.errors(include_input=False, include_url=False):
            place = fault["loc"]
            is_unknown |= fault["type"] == "extra_forbidden" and len(place) == 1
            variable = variable_name(place)
            name = ".".join(map(str, place)) + (f" ({variable})" if variable else "")
            gone = _SUCCESSORS.get(".".join(map(str, place)))
            problems.append(f"  {name}: {gone or describe_fault(fault, Settings, place)}")
    except pydantic_settings.SettingsError as error:
        problems.append(f"  environment: {_unreadable(error)}")
    if is_unknown:  # it may be the section of one
        problems += [f"  {error}" for error in find_integrations().missing.values()]
    source = f"of {file} or the environment" if file is not None else "of the environment"
    raise SettingsError("\n".join([f"The settings {source} are wrong:", *problems]))


def _from_folder(value: Any, folder: Path) -> Any:
    """Make the paths in ``{ file = "PATH" }`` relative to the folder of the settings."""
    if isinstance(value, list):
        return [_from_folder(part, folder) for part in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    entries = cast("dict[str, Any]", value)
    if entries.keys() == {"file"} and isinstance(entries["file"], str):
        return {"file": str(folder / _home(Path(entries["file"])))}
    return {name: _from_folder(part, folder) for name, part in entries.items()}


def _find(path: Path | None) -> Path | None:
    name = path or os.environ.get(FILE_VARIABLE)
    if name:
        file = _home(Path(name))
        if not file.is_file():
            origin = "--settings" if path else FILE_VARIABLE
            problem = "is not a regular file." if file.exists() else f"does not exist.{suggest_file(file)}"
            raise SettingsError(f"The settings file {str(file)!r} named by {origin} {problem}")
        return file
    local = Path(LOCAL_FILE)
    if local.is_file():
        require_trust(local)
        return local
    own = _own_file()
    return own if own.is_file() else None


def _own_file() -> Path:
    """Return the path of the user's own settings."""
    return _home(Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config")) / "ragflow-lg" / "settings.toml"


def _home(path: Path) -> Path:
    """Expand ``~``. If the user has no home directory, return the path unchanged."""
    try:
        return path.expanduser()
    except RuntimeError:
        return path


def _unreadable(error: pydantic_settings.SettingsError) -> str:
    """Report which variable should contain a list or table as JSON, without showing its value."""
    field = _FIELD.search(str(error))
    variable = variable_name([field[1]]) if field else ""
    return f"{variable} is not valid JSON, which lists and tables require." if variable else f"{error}."
