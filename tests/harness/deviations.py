"""Deliberate differences from the recordings, each with a row of ``docs/fidelity.md``; the file is `_FILE`."""

import tomllib
from pathlib import Path

from msgspec import Struct, convert


class Deviation(Struct, frozen=True):
    """The fields of `tests.harness.record` that differ; all others have to be equal."""

    row: str
    fields: frozenset[str] = frozenset()
    answers: tuple[str, ...] = ()
    """Our answers of all turns."""
    refused: str = ""
    """The code of the diagnostic that refuses the canvas."""


_FILE = Path(__file__).parents[1] / "fixtures" / "deviations.toml"
DEVIATIONS = convert(tomllib.loads(_FILE.read_text("utf-8")), dict[str, Deviation])
