"""Checks an SQLite session store for ``ragflow-lg doctor``."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints.check_result import CheckResult
from ragflow_lg.checkpoints.sql.sqlite_file import describe_failure, open_sqlite, recovery_advice

MIN_FREE_MIB = 100


async def probe_sqlite(path: Path) -> AsyncIterator[CheckResult]:
    """Check a file's format, integrity, permissions and free disk space. The file must exist."""
    try:
        async with open_sqlite(path) as file:
            rows = await file.read("PRAGMA integrity_check(1)")
    except CheckpointError as error:
        yield CheckResult(False, *describe_failure(path, error.__cause__ or error))
        return
    yield CheckResult(True, f"{path} is a session store")
    row: Any = rows[0] if rows else None
    is_sound = row is not None and row[0] == "ok"
    text = "the file is sound" if is_sound else f"the file is damaged: {' '.join(str(row and row[0]).split())}"
    yield CheckResult(is_sound, text, "" if is_sound else recovery_advice(path))
    for result in (*_file_results(path), *_folder_results(path)):
        yield result


def describe_missing_file(path: Path) -> list[CheckResult]:
    """Check the folder in which the file will be created."""
    return [CheckResult(True, f"{path} does not exist yet; the first run will create it"), *_folder_results(path)]


def _file_results(path: Path) -> list[CheckResult]:
    mode = stat.S_IMODE(path.stat().st_mode)
    is_private = not mode & 0o077
    advice = "" if is_private else f"Other users can read it: chmod 600 {path}."
    return [CheckResult(is_private, f"its permissions are {mode:o}", advice), _check_writable(path, "it")]


def _folder_results(path: Path) -> list[CheckResult]:
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    free = shutil.disk_usage(folder).free // 2**20
    has_room = free > MIN_FREE_MIB
    return [
        _check_writable(folder, f"the folder {folder}"),
        CheckResult(has_room, f"{free:,} MiB are free on its disk", "" if has_room else "Free some disk space."),
    ]


def _check_writable(path: Path, name: str) -> CheckResult:
    if os.access(path, os.W_OK):
        return CheckResult(True, f"{name} is writable")
    return CheckResult(False, f"{name} is not writable", "Give yourself write permission, or choose another path.")
