"""A lock on a folder: a second server in the folder would overwrite the first server's files."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from ragflow_lg.base.errors import SettingsError


@contextmanager
def lock_folder(folder: Path) -> Generator[None]:
    """Lock a folder inside the context. The lock also ends with the process, even if it is killed.

    Raises:
        SettingsError: If another process has locked the folder, or it does not exist.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise SettingsError(f"{str(folder)!r} cannot be opened: {error.strerror}.") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SettingsError(
                f"Another `ragflow-lg studio` serves {str(folder)!r}: stop it, or use another folder with --output."
            ) from None
        except OSError:  # the file system does not support locks
            pass
        yield
    finally:
        os.close(descriptor)
