"""Reports as PDF, typeset by Typst from what Pandoc writes for it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.integrations.documents.images import Picture
from ragflow_lg.integrations.documents.languages import LANGUAGES, describe_missing, main_language
from ragflow_lg.integrations.documents.markdown_document import DocumentWriter, Element, count_cells, title_of
from ragflow_lg.integrations.documents.report_settings import ReportSettings
from ragflow_lg.integrations.documents.typst_compiler import compile_source, open_fonts
from ragflow_lg.services.reports import Layout

if TYPE_CHECKING:
    from typst import Fonts

BODY_FAMILY = "Libertinus Serif"
"""The family of the text, which is part of Typst."""

_SYMBOL_FAMILIES = ("New Computer Modern", "DejaVu Sans Mono", "DejaVu Sans", "Noto Sans Symbols", "Noto Sans Symbols2")
"""Families that are looked at last, by name: Typst's own search misses some of their characters."""

MAX_TABLE_CELLS = 25_000
"""Maximum number of cells of all tables: Typst needs about 25 KiB of memory for each."""

MAX_CHECKED = 4_000
"""How many different characters are looked for in the fonts."""

_BOXES = "☐☒"
_MISSING = re.compile(r'the text `"(.)"` could not be displayed')
_HIDDEN_KINDS = ("C", "M", "Z")

_STYLE = Path(__file__).with_name("report.typ").read_text("utf-8")
"""What comes before the text. All values are in ``sys.inputs``, where Typst does not interpret them."""


def write_pdf(
    blocks: list[Element], text: str, layout: Layout, pictures: Mapping[str, Picture], settings: ReportSettings
) -> tuple[bytes, list[str]]:
    """Return the file, and warnings about characters that no font has.

    ``text`` is the source of the blocks, whose characters are looked for in the fonts.

    Raises:
        ServiceError: if Typst refuses the source, or the tables are too large.
    """
    if (cells := count_cells(blocks)) > MAX_TABLE_CELLS:
        raise ServiceError(
            f"The tables have {cells:,} cells, more than the {MAX_TABLE_CELLS:,} that fit into a PDF file. "
            "Write a spreadsheet instead, or shorten the tables."
        )
    fonts, families = open_fonts(settings.font_folders, settings.system_fonts)
    language = main_language(text)
    values = _values(title_of(blocks), language, layout, settings, families)
    names = {address: f"{number}.{picture.type}" for number, (address, picture) in enumerate(pictures.items())}
    files = {names[address]: picture.content for address, picture in pictures.items()}

    def typeset(*, shows_formulas: bool) -> bytes:
        body = DocumentWriter("typst", names, language, shows_formulas=shows_formulas).write(blocks).decode()
        return compile_source(_STYLE + body, fonts, files, sys_inputs=values)

    warnings = [
        f"No font is called {family!r}, which [reports] fonts names."
        for family in settings.fonts
        if family.lower() not in families
    ]
    try:
        content = typeset(shows_formulas=True)
    except ServiceError as error:
        content = typeset(shows_formulas=False)
        warnings.append(f"Formulas are shown as their source, because one of them cannot be typeset. {error}")
    around = "".join((layout.header, layout.footer, layout.watermark))
    if missing := _find_missing(text + around + _BOXES, fonts, values):
        warnings.append(describe_missing(missing))
    return content, warnings


def find_missing_languages(settings: ReportSettings) -> list[str]:
    """Return characters of the languages for which there is no font, one of each language."""
    fonts, families = open_fonts(settings.font_folders, settings.system_fonts)
    samples = "".join(language.sample for language in LANGUAGES.values())
    return _find_missing(samples, fonts, _values("", "", Layout(), settings, families))


def _values(
    title: str, language: str, layout: Layout, settings: ReportSettings, families: frozenset[str]
) -> dict[str, str]:
    """Return what the style reads."""
    by_language = [family for each in LANGUAGES.values() for family in each.families]
    first = [*settings.fonts, BODY_FAMILY]
    values: dict[str, Any] = {
        "title": title,
        "paper": settings.paper,
        "size": layout.font_size,
        "language": language or "en",
        "region": LANGUAGES[language].region if language else "",
        "fonts": {
            code: _available([*first[:1], *preferred, *first, *by_language, *_SYMBOL_FAMILIES], families)
            for code, preferred in (("en", ()), *((code, each.families) for code, each in LANGUAGES.items()))
        },
        "header": layout.header,
        "footer": layout.footer,
        "timestamp": layout.timestamp,
        "numbers": layout.has_page_numbers,
        "has_footer": bool(layout.footer or layout.timestamp or layout.has_page_numbers),
        "watermark": layout.watermark,
        "mark_size": max(12, min(64, 900 // max(1, len(layout.watermark)))),
    }
    return {"report": orjson.dumps(values).decode()}


def _available(wanted: list[str], families: frozenset[str]) -> list[str]:
    return [family for family in dict.fromkeys(wanted) if family.lower() in families]


def _find_missing(text: str, fonts: Fonts, values: dict[str, str]) -> list[str]:
    """Return the characters that no font has. PDF/A forbids such characters, and Typst then names them."""
    distinct = [
        character
        for character in dict.fromkeys(text)
        if ord(character) > 0xFF and unicodedata.category(character)[0] not in _HIDDEN_KINDS
    ][:MAX_CHECKED]
    source = _STYLE + "#for each in sys.inputs.characters.codepoints() { text(each) }"
    values = {**values, "characters": "".join(distinct)}
    try:
        compile_source(source, fonts, pdf_standards=["a-2b"], sys_inputs=values)
    except ServiceError as error:
        named = set(_MISSING.findall(getattr(error.__cause__, "diagnostic", "")))
        return [character for character in distinct if character in named]
    return []
