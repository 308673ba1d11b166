"""Typst with the fonts of the settings, for documents and single images."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from ragflow_lg.adapters.reports.images import Picture
from ragflow_lg.adapters.reports.typst_source import typst_image
from ragflow_lg.base.cjk_font import find_cjk_font
from ragflow_lg.base.errors import ServiceError

if TYPE_CHECKING:
    from typst import Fonts

CODE_FAMILY = "DejaVu Sans Mono"
"""The family of code, which is part of Typst."""

ROOT = __file__
"""The folder of files that a source or a drawing in it can refer to: none, because this is a file itself."""


@lru_cache(maxsize=4)
def open_fonts(folders: tuple[str, ...], has_system_fonts: bool) -> tuple[Fonts, frozenset[str]]:
    """Return the fonts, and the names of their families in lower case."""
    from typst import Fonts

    cjk = find_cjk_font()
    fonts = Fonts(include_system_fonts=has_system_fonts, font_paths=[*folders, *([str(cjk.parent)] if cjk else [])])
    return fonts, frozenset(family.lower() for family in fonts.families())


def compile_source(source: str, fonts: Fonts, format: Literal["pdf", "png"] = "pdf") -> bytes:
    """Compile a source that names no files.

    Raises:
        ServiceError: if Typst refuses it.
    """
    import typst

    compile_: Any = typst.compile  # its stub requires a root of the source's type
    try:
        content = source.encode("utf-8", "ignore")
        return compile_(content, root=ROOT, font_paths=fonts, format=format)
    except typst.TypstError as error:
        raise ServiceError(f"The document cannot be typeset: {error.message[:300]}") from error


def find_problems(source: str, fonts: Fonts) -> str:
    """Return what prevents a source from being an archivable PDF (PDF/A), such as characters that no font has."""
    import typst

    compile_: Any = typst.compile
    try:
        compile_(source.encode("utf-8", "ignore"), root=ROOT, font_paths=fonts, format="pdf", pdf_standards=["a-2b"])
    except typst.TypstError as error:
        return error.diagnostic
    return ""


def draw_picture(picture: Picture) -> bytes | None:
    """Return an image of any type as PNG, or None if it is damaged or refers to files."""
    fonts, _ = open_fonts((), False)
    source = f"#{{set page(width: auto, height: auto, margin: 0pt)\n{typst_image(picture)}}}"
    try:
        return compile_source(source, fonts, "png")
    except ServiceError:
        return None
