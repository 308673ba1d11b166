"""One server a folder: a second one would write the first one's files anew, under its feet."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from ragflow_lg.base.errors import SettingsError

__all__ = ["folder_alone"]


@contextmanager
def folder_alone(folder: Path) -> Generator[None]:
    """Hold a folder meanwhile. It is free again when this process has ended, in whatever way.

    Raises:
        SettingsError: if another process holds it, or there is no such folder.
    """
    try:
        opened = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise SettingsError(f"{str(folder)!r} cannot be opened: {error.strerror}.") from None
    try:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SettingsError(
                f"Another `ragflow-lg studio` serves {str(folder)!r}: end it, or name another folder by --output."
            ) from None
        except OSError:  # a file system without locks
            pass
        yield
    finally:
        os.close(opened)
