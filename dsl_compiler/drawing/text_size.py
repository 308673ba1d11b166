"""The size of texts in pixels, and texts cut to their room.

The widths are those of Roboto, which PNGs use. Other sans-serif fonts are about as wide.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

_WIDTHS = {
    **dict.fromkeys("ijl|'.,:;!", 0.26),
    **dict.fromkeys('ftr()[]{}-/\\ I"`*', 0.36),
    **dict.fromkeys("mwMW@%", 0.86),
    **dict.fromkeys("ABCDEFGHJKLNOPQRSTUVXYZ&+<>=~#", 0.65),
}
"""The width of characters, in units of the font's size. All others of Latin script are 0.56 wide."""

_LATIN_WIDTH, _WIDE, _OTHER_WIDTH = 0.56, 1.0, 0.62


def text_width(text: str, size: float) -> float:
    """Estimate the width of a text in pixels."""
    return size * sum(map(_character_width, text))


def _character_width(character: str) -> float:
    if (width := _WIDTHS.get(character)) is not None:
        return width
    if character < "\u0250":
        return _LATIN_WIDTH
    return _WIDE if unicodedata.east_asian_width(character) in "WF" else _OTHER_WIDTH


def clean_text(text: str) -> str:
    """Return the start of a text on one line, without invisible characters such as those that change direction."""
    return " ".join("".join(c if c.isprintable() else " " for c in text[:400]).split())


def shorten_text(text: str, room: float, size: float) -> str:
    """Cut a text to ``room`` pixels on one line."""
    line = clean_text(text)
    if text_width(line, size) <= room:
        return line
    while line and text_width(line + "…", size) > room:
        line = line[:-1]
    return line.rstrip() + "…"


def wrap_text(text: str, room: float, size: float, max_lines: int) -> tuple[str, ...]:
    """Return a text in lines that fit into ``room`` pixels; the last one is cut."""
    whole = clean_text(text)
    if text_width(whole, size) <= room:
        return (whole,)
    words, lines = list(_pieces(whole, room, size)), [""]
    while words:
        line = lines[-1] + words[0]
        if not lines[-1] or text_width(line.rstrip(), size) <= room:
            lines[-1] = line
            words.pop(0)
        elif len(lines) < max_lines:
            lines.append("")
        else:
            lines[-1] = shorten_text(lines[-1] + "".join(words) + "…", room, size)
            break
    return tuple(line.rstrip() for line in lines)


def _pieces(text: str, room: float, size: float) -> Iterator[str]:
    """Yield the parts between which a line may be broken: words, characters of scripts without spaces, long halves."""
    word = ""
    for character in text:
        is_wide = unicodedata.east_asian_width(character) in "WF"
        if word and (is_wide or text_width(word + character, size) > room):
            yield word
            word = ""
        word += character
        if is_wide or character in " :/_-":
            yield word
            word = ""
    if word:
        yield word
