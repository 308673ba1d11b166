"""A ``.env`` file: variables that the environment lacks, such as keys.

A variable can decide which server receives a key, so a ``.env`` is read only where settings are: in the folder of the
settings file, or in a working folder that the user trusts.
"""

from __future__ import annotations

import os
import re
from io import StringIO
from pathlib import Path

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.settings.trusted_folders import is_trusted

NAME = ".env"
MAX_BYTES = 64 * 1024
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def find_file(settings_file: Path | None, own_file: Path) -> Path | None:
    """Return the ``.env`` to read, or None.

    Without a settings file, or with the user's own one, it is that of the working folder, if the user trusts it.
    """
    if settings_file is not None:
        beside = settings_file.parent / NAME
        if settings_file != own_file or beside.is_file():
            return beside if beside.is_file() else None
    local = Path(NAME)
    return local if local.is_file() and is_trusted("settings", Path()) else None


def find_untrusted() -> Path | None:
    """Return the ``.env`` of a working folder that is not trusted, or None."""
    local = Path(NAME)
    return local.absolute() if local.is_file() and not is_trusted("settings", Path()) else None


def load_variables(file: Path) -> list[str]:
    """Set the variables in a file that the environment lacks, and return their names.

    Raises:
        SettingsError: if the file cannot be read, or is larger than 64 KiB. The message contains no values.
    """
    from dotenv import dotenv_values

    try:
        with file.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise SettingsError(f"{file} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"{file} is not UTF-8 text (at byte {error.start}).") from None
    if len(content) > MAX_BYTES:
        raise SettingsError(f"{file} has more than {MAX_BYTES // 1024} KiB. It should only contain variables.")
    loaded: list[str] = []
    for name, value in dotenv_values(stream=StringIO(text), interpolate=False).items():
        if value is None or name in os.environ:
            continue
        if not _VARIABLE.fullmatch(name) or "\0" in value:
            raise SettingsError(f"{file} cannot be used: {name[:80]!r} is not a variable with a valid name and value.")
        os.environ[name] = value
        loaded.append(name)
    return loaded
