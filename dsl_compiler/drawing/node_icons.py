"""The icons of nodes, as the paths of SVG in a square of 24 pixels: those of Lucide (ISC licence, lucide.dev)."""

from __future__ import annotations

from collections.abc import Mapping

_OF_NAMES: Mapping[str, str] = {
    "Agent": (
        "M12 8V4H8 M6 8h12a2 2 0 0 1 2 2v8a2 2 0 0 1 -2 2h-12a2 2 0 0 1 -2 -2v-8a2 2 0 0 1 2 -2z M2 14h2"
        " M20 14h2 M15 13v2 M9 13v2"
    ),
    "Retrieval": (
        "M12 5v16"
        " M20.001 19A2 2 0 0022 17V5a2 2 0 00-1.999-2L16 3.002A5 5 0 0012 5a5 5 0 00-4-2H4a2 2 0 00-2 2v12a2"
        " 2 0 001.999 2H8a5 5 0 014 2 5 5 0 014-2z"
    ),
    "CodeExec": "M18 16l4-4-4-4 M6 8l-4 4 4 4 M14.5 4l-5 16",
    "Invoke": "M2 12a10 10 0 1 0 20 0 10 10 0 1 0 -20 0 M12 2a14.5 14.5 0 0 0 0 20 14.5 14.5 0 0 0 0-20 M2 12h20",
    "StringTransform": "M12 4v16 M4 7V5a1 1 0 0 1 1-1h14a1 1 0 0 1 1 1v2 M9 20h6",
}
_OF_KINDS: Mapping[str, str] = {
    "entry": "M5 5a2 2 0 0 1 3.008-1.728l11.997 6.998a2 2 0 0 1 .003 3.458l-12 7A2 2 0 0 1 5 19z",
    "message": (
        "M22 17a2 2 0 0 1-2 2H6.828a2 2 0 0 0-1.414.586l-2.202 2.202A.71.71 0 0 1 2 21.286V5a2 2 0 0 1"
        " 2-2h16a2 2 0 0 1 2 2z"
    ),
    "model": (
        "M11.017 2.814a1 1 0 0 1 1.966 0l1.051 5.558a2 2 0 0 0 1.594 1.594l5.558 1.051a1 1 0 0 1 0"
        " 1.966l-5.558 1.051a2 2 0 0 0-1.594 1.594l-1.051 5.558a1 1 0 0 1-1.966 0l-1.051-5.558a2 2 0 0"
        " 0-1.594-1.594l-5.558-1.051a1 1 0 0 1 0-1.966l5.558-1.051a2 2 0 0 0 1.594-1.594z M20 2v4 M22 4h-4"
        " M2 20a2 2 0 1 0 4 0 2 2 0 1 0 -4 0"
    ),
    "route": "M16 3h5v5 M8 3H3v5 M12 22v-8.3a4 4 0 0 0-1.172-2.872L3 3 M15 9l6-6",
    "region": "M17 2l4 4-4 4 M3 11v-1a4 4 0 0 1 4-4h14 M7 22l-4-4 4-4 M21 13v1a4 4 0 0 1-4 4H3",
    "region_item": "M15 10l5 5-5 5 M4 4v7a4 4 0 0 0 4 4h12",
    "region_exit": "M16 17l5-5-5-5 M21 12H9 M9 21H5a2 2 0 0 1-2-2V5a2 2 0 0 1 2-2h4",
    "interrupt": (
        "M12 20h-1a2 2 0 0 1-2-2 2 2 0 0 1-2 2H6 M13 8h7a2 2 0 0 1 2 2v4a2 2 0 0 1-2 2h-7"
        " M5 16H4a2 2 0 0 1-2-2v-4a2 2 0 0 1 2-2h1 M6 4h1a2 2 0 0 1 2 2 2 2 0 0 1 2-2h1 M9 6v12"
    ),
}
_PLAIN = (
    "M14.7 6.3a1 1 0 0 0 0 1.4l1.6 1.6a1 1 0 0 0 1.4 0l3.106-3.105c.32-.322.863-.22.983.218a6 6 0 0"
    " 1-8.259 7.057l-7.91 7.91a1 1 0 0 1-2.999-3l7.91-7.91a6 6 0 0 1 7.057-8.259c.438.12.54.662.219.984z"
)


def icon_of(name: str, kind: str) -> str:
    """Return the icon of a component, or of its kind."""
    return _OF_NAMES.get(name) or _OF_KINDS.get(kind, _PLAIN)
