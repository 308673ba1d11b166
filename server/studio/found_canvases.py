"""The canvases of a file or folder, each with a name for its graph, and what changes among them."""

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

__all__ = ["Canvas", "Project", "Watched", "find_canvases"]

_NO_NAME = re.compile(r"\W+", re.ASCII)
_TAKEN = ("canvas_factory", "open_sessions")
"""What the module imports."""
_DIGITS = 6
_REASONS_TOLD = 5
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

    def look(self, project: Project | None) -> None:
        """Remember the files as they are; without a project only that they have been looked at."""
        if project is not None:
            self._left_out = set(project.left_out)
        self._seen = self._now()

    def have_changed(self) -> bool:
        """Whether a file has come or gone, or one that was left out is another now."""
        return self._now() != self._seen

    def _now(self) -> dict[Path, int]:
        return {file: _changed_at(file) if file in self._left_out else 0 for file in _files(self._place)}


def find_canvases(place: Path) -> Project:
    """Find the canvases of a file or folder; folders in it are not looked into.

    Raises:
        SettingsError: if there are none, or too many.
        CompileError: if the one file that is named is no canvas.
    """
    files = _files(place)
    if len(files) > _MAX_CANVASES:
        raise SettingsError(
            f"{str(place)!r} has {len(files):,} JSON files; at most {_MAX_CANVASES:,} are served at once."
        )
    names = _names([file.stem for file in files])
    canvases: list[Canvas] = []
    left_out: dict[Path, str] = {}
    for file, name in zip(files, names, strict=True):
        try:
            canvases.append(Canvas(file, name, _title(file)))
        except (CompileError, SettingsError) as error:
            if not place.is_dir():
                raise
            left_out[file] = str(error)
    if not canvases:
        raise SettingsError(f"There is no canvas in {str(place)!r}.{_reasons(left_out)}")
    return Project(tuple(canvases), left_out)


def _reasons(left_out: Mapping[Path, str]) -> str:
    """Say what keeps the first few files out."""
    told = [f"\n{file.name}: {why}" for file, why in islice(left_out.items(), _REASONS_TOLD)]
    more = len(left_out) - len(told)
    return "".join(told) + (f"\n{more:,} more files are none, either." if more else "")


def _files(place: Path) -> list[Path]:
    return canvas_files(place) if place.is_dir() else [place]


def _title(file: Path) -> str:
    try:
        str(file).encode()
    except UnicodeEncodeError:
        raise SettingsError("its name is not UTF-8; rename it.") from None
    if file.exists() and not file.is_file():  # to read a pipe would wait for a writer
        raise SettingsError(f"{str(file)!r} is no file.")
    plan, diagnostics = sketch_file(file)
    if plan is None:
        raise CompileError(diagnostics)
    return plan.title or file.stem


def _changed_at(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except OSError:  # it goes just now, or is a link to nowhere
        return -1


def _names(stems: Sequence[str]) -> list[str]:
    """Give each a name of its own that a Python module can have.

    Where several would have one name, it is that of the file that is called just so; the others bear a digest. So
    no file takes a name that has been another's, however many come and go: threads belong to the name.
    """
    plain = [_name(stem) for stem in stems]
    count = Counter(plain)
    names: list[str] = []
    for stem, name in zip(stems, plain, strict=True):
        digest = hashlib.sha256(stem.encode("utf-8", "surrogateescape")).hexdigest()[:_DIGITS]
        names.append(name if count[name] == 1 or name == stem else f"{name}_{digest}")
    return names


def _name(stem: str) -> str:
    """Give a name that a Python module can have; different letters stay different."""
    plain = "".join(c if c.isascii() else f"_{ord(c):x}_" for c in stem)
    name = _NO_NAME.sub("_", plain).strip("_").lower() or "canvas"
    return f"canvas_{name}" if name[0].isdigit() or keyword.iskeyword(name) or name in _TAKEN else name
