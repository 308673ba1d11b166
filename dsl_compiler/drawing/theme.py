"""The colours of a drawing."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from ragflow_lg.dsl_compiler.drawing.sketch import Mark

ThemeName = Literal["light", "dark"]


class Theme(Struct, frozen=True):
    """The colours of a drawing, as SVG writes them."""

    background: str
    node: str
    ink: str
    line: str
    label: str
    container: str
    container_line: str
    tint: str
    """Mixed into the colours of the kinds, so that texts in them can be read."""


THEMES: dict[str, Theme] = {
    "light": Theme("#fbfcfd", "#ffffff", "#1d2733", "#7b8a99", "#51606e", "#f1f4f8", "#aebac6", "#000000"),
    "dark": Theme("#12161b", "#1d242c", "#e8eef4", "#7d8b99", "#a9b6c2", "#171d24", "#3e4a57", "#ffffff"),
}

MARKS: dict[Mark, str] = {"added": "#2f9e6e", "removed": "#cc4b4b", "changed": "#cf8a1c", "error": "#cc4b4b"}
"""The colours of marked nodes and edges."""


def mix(colour: str, other: str, share: float) -> str:
    """Return a colour with a share of another one.

    >>> mix("#000000", "#ffffff", 0.5)
    '#808080'
    """
    channels = ((int(colour[i : i + 2], 16), int(other[i : i + 2], 16)) for i in (1, 3, 5))
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in channels)
