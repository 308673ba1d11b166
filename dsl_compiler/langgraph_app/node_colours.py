"""The colour of each kind of node, the same in every drawing."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["colour_of"]

_COLOURS: Mapping[str, str] = {
    "entry": "#2f9e6e",
    "message": "#3b74d6",
    "model": "#8450c9",
    "route": "#cf8a1c",
    "region": "#5b7083",
    "interrupt": "#cc4b4b",
}
_PLAIN = "#8796a5"


def colour_of(kind: str) -> str:
    """Give the colour of a kind of component."""
    return _COLOURS.get(kind, _PLAIN)
