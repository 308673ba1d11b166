"""Typst with the fonts of the settings, for documents and single images."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.extras import find_cjk_font

if TYPE_CHECKING:
    from typst import Fonts


@lru_cache(maxsize=4)
def open_fonts(folders: tuple[str, ...], has_system_fonts: bool) -> tuple[Fonts, frozenset[str]]:
    """Return the fonts, and the names of their families in lower case."""
    from typst import Fonts

    cjk = find_cjk_font()
    fonts = Fonts(include_system_fonts=has_system_fonts, font_paths=[*folders, *([str(cjk.parent)] if cjk else [])])
    return fonts, frozenset(family.lower() for family in fonts.families())


def compile_source(source: str, fonts: Fonts, files: Mapping[str, bytes] | None = None, **options: Any) -> bytes:
    """Compile a source that can read the given files only, and no packages.

    Raises:
        ServiceError: if Typst refuses it. Its cause has the whole ``diagnostic``.
    """
    import typst

    compile_: Any = typst.compile  # its stub requires a root of the source's type
    with TemporaryDirectory() as folder:
        for name, content in (files or {}).items():
            Path(folder, name).write_bytes(content)
        where = {"root": folder, "package_path": folder, "package_cache_path": folder}
        try:
            return compile_(source.encode("utf-8", "ignore"), font_paths=fonts, **where, **options)
        except typst.TypstError as error:
            raise ServiceError(f"The document cannot be typeset: {error.message[:300]}") from error
