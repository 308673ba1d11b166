"""Finding the canvases in a file or folder, naming their graphs, and detecting changes."""

from __future__ import annotations

import hashlib
import keyword
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

from msgspec import Struct

from ragflow_lg.base.errors import CompileError, SettingsError
from ragflow_lg.server.assembly.canvas_files import canvas_files
from ragflow_lg.server.assembly.library import sketch_file

_NOT_IDENTIFIER = re.compile(r"\W+", re.ASCII)
_RESERVED = ("canvas_factory", "open_memories", "open_sessions")
"""Names that the generated module imports."""
_DIGITS = 6
_MAX_REASONS = 5
_MAX_CANVASES = 1_000


class Canvas(Struct, frozen=True):
    """A canvas file with the id of its graph and its title."""

    file: Path
    graph: str
    title: str


class Project(Struct, frozen=True):
    """The canvases to write, and the files that are skipped, each with the reason."""

    canvases: tuple[Canvas, ...]
    skipped: Mapping[Path, str]


class CanvasWatcher:
    """Watches a file or folder for added and removed canvases.

    The graph factories detect changed canvases themselves.
    """

    def __init__(self, place: Path, project: Project) -> None:
        self._place = place
        self.update(project)

    def update(self, project: Project | None) -> None:
        """Store the current files and, if ``project`` is given, which of them are skipped."""
        if project is not None:
            self._skipped = set(project.skipped)
        self._snapshot = self._take_snapshot()

    def has_changed(self) -> bool:
        """Return whether a file was added or removed, or a skipped file was modified."""
        return self._take_snapshot() != self._snapshot

    def _take_snapshot(self) -> dict[Path, int]:
        return {file: _modified_ns(file) if file in self._skipped else 0 for file in _files(self._place)}


def find_canvases(place: Path) -> Project:
    """Find the canvases in a file or folder, excluding subfolders.

    Raises:
        SettingsError: If there are no canvases, or too many.
        CompileError: If ``place`` is a file that is not a valid canvas.
    """
    files = _files(place)
    if len(files) > _MAX_CANVASES:
        raise SettingsError(f"{str(place)!r} has {len(files):,} JSON files; at most {_MAX_CANVASES:,} can be served.")
    names = _names([file.stem for file in files])
    canvases: list[Canvas] = []
    skipped: dict[Path, str] = {}
    for file, name in zip(files, names, strict=True):
        try:
            canvases.append(Canvas(file, name, _title(file)))
        except (CompileError, SettingsError) as error:
            if not place.is_dir():
                raise
            skipped[file] = str(error)
    if not canvases:
        raise SettingsError(f"There is no canvas in {str(place)!r}.{_reasons(skipped)}")
    return Project(tuple(canvases), skipped)


def _reasons(skipped: Mapping[Path, str]) -> str:
    """Return the reasons why the first few files are skipped."""
    lines = [f"\n{file.name}: {reason}" for file, reason in islice(skipped.items(), _MAX_REASONS)]
    more = len(skipped) - len(lines)
    return "".join(lines) + (f"\n{more:,} more files are not canvases." if more else "")


def _files(place: Path) -> list[Path]:
    return canvas_files(place) if place.is_dir() else [place]


def _title(file: Path) -> str:
    try:
        str(file).encode()
    except UnicodeEncodeError:
        raise SettingsError("The file name is not UTF-8; rename the file.") from None
    if file.exists() and not file.is_file():  # reading a pipe would block
        raise SettingsError(f"{str(file)!r} is not a regular file.")
    plan, diagnostics = sketch_file(file)
    if plan is None:
        raise CompileError(diagnostics, file=str(file))
    return plan.title or file.stem


def _modified_ns(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except OSError:  # just removed, or a broken link
        return -1


def _names(stems: Sequence[str]) -> list[str]:
    """Return unique names that are Python identifiers.

    If several stems map to one name, the stem equal to that name keeps it; the other names get a digest. A file
    therefore never takes over another file's name when files are added or removed: threads are stored by name.
    """
    plain = [_name(stem) for stem in stems]
    count = Counter(plain)
    names: list[str] = []
    for stem, name in zip(stems, plain, strict=True):
        digest = hashlib.sha256(stem.encode("utf-8", "surrogateescape")).hexdigest()[:_DIGITS]
        names.append(name if count[name] == 1 or name == stem else f"{name}_{digest}")
    return names


def _name(stem: str) -> str:
    """Return a Python identifier; non-ASCII letters are replaced with their code points."""
    plain = "".join(c if c.isascii() else f"_{ord(c):x}_" for c in stem)
    name = _NOT_IDENTIFIER.sub("_", plain).strip("_").lower() or "canvas"
    return f"canvas_{name}" if name[0].isdigit() or keyword.iskeyword(name) or name in _RESERVED else name
