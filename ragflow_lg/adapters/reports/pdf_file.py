"""Reports as PDF, typeset by Typst."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ragflow_lg.adapters.reports.images import Picture
from ragflow_lg.adapters.reports.languages import LANGUAGES, SAMPLES, describe_missing, main_language
from ragflow_lg.adapters.reports.markdown_reader import BOXES
from ragflow_lg.adapters.reports.report_settings import ReportSettings
from ragflow_lg.adapters.reports.report_tree import Block, count_cells, title_of
from ragflow_lg.adapters.reports.typst_compiler import CODE_FAMILY, compile_source, find_problems, open_fonts
from ragflow_lg.adapters.reports.typst_source import TypstWriter, literal
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.services.reports import Layout

if TYPE_CHECKING:
    from typst import Fonts

BODY_FAMILY = "Libertinus Serif"
"""The family of the text, which is part of Typst."""

_SYMBOL_FAMILIES = ("New Computer Modern", CODE_FAMILY, "DejaVu Sans", "Noto Sans Symbols", "Noto Sans Symbols2")
"""Families that are looked at last, by name: Typst's own search misses some of their characters."""

MAX_TABLE_CELLS = 25_000
"""Maximum number of cells of all tables: Typst needs about 25 KiB of memory for each."""

MAX_CHECKED = 4_000
"""How many different characters are looked for in the fonts."""

_MISSING = re.compile(r'the text `"(.)"` could not be displayed')
_HIDDEN_KINDS = ("C", "M", "Z")
_MARGIN_PT = 72
_GREY = "luma(90)"


def write_pdf(
    blocks: Sequence[Block], text: str, layout: Layout, pictures: Mapping[str, Picture], settings: ReportSettings
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
    by_language = [family for each in LANGUAGES.values() for family in each.families]
    wanted = [*settings.fonts, BODY_FAMILY, *by_language, *_SYMBOL_FAMILIES]
    available = [family for family in dict.fromkeys(wanted) if family.lower() in families]
    language = main_language(text)
    font_rule = TypstWriter(pictures, available, language).font_rule(language)
    rules = "\n".join(_rules(blocks, layout, settings, font_rule))

    def typeset(*, has_formulas: bool) -> bytes:
        writer = TypstWriter(pictures, available, language, has_formulas=has_formulas)
        return compile_source(f"#{{\n{rules}\n{writer.blocks(blocks)}\n}}", fonts)

    warnings: list[str] = []
    try:
        content = typeset(has_formulas=True)
    except ServiceError as error:
        content = typeset(has_formulas=False)
        warnings.append(f"Formulas are shown as their source, because one of them cannot be typeset. {error}")
    around = "".join((layout.header, layout.footer, layout.watermark))
    warnings += [
        f"No font is called {family!r}, which [reports] fonts names."
        for family in settings.fonts
        if family.lower() not in families
    ]
    if missing := _find_missing(text + around + BOXES, fonts, font_rule):
        warnings.append(describe_missing(missing))
    return content, warnings


def find_missing_languages(settings: ReportSettings) -> list[str]:
    """Return characters of the languages for which there is no font, one of each language."""
    fonts, _ = open_fonts(settings.font_folders, settings.system_fonts)
    return _find_missing("".join(SAMPLES.values()), fonts, f'set text(font: "{BODY_FAMILY}")')


def _rules(blocks: Sequence[Block], layout: Layout, settings: ReportSettings, font_rule: str) -> list[str]:
    size = layout.font_size
    rules = [
        f"set document(title: {literal(title_of(blocks))}, date: none)",
        f'set page(paper: "{settings.paper}", margin: {_MARGIN_PT}pt, {_page_parts(layout)})',
        font_rule,
        f"set text(size: {size:g}pt, dir: ltr)",
        'set par(leading: 0.7em, spacing: 1.1em, linebreaks: "optimized")',
        "set heading(outlined: true)",
        "show heading: set block(above: 1.4em, below: 0.8em)",
        f'show raw: set text(font: ("{CODE_FAMILY}", "{BODY_FAMILY}"), size: {size * 0.85:g}pt, dir: ltr)',
        "show raw.where(block: true): set block(fill: luma(245), inset: 8pt, radius: 3pt, width: 100%)",
        'show link: set text(fill: rgb("#1a4f9c"))',
        "show table: set par(justify: false)",
        "set enum(full: false)",
    ]
    larger = {1: 6, 2: 4, 3: 2}
    rules += [
        f"show heading.where(level: {level}): set text(size: {size + larger.get(level, 0):g}pt)"
        for level in range(1, 7)
    ]
    return rules


def _page_parts(layout: Layout) -> str:
    small = f"set text(size: 9pt, fill: {_GREY}, dir: ltr)"
    header = f"{{{small}; text({literal(layout.header)})}}" if layout.header else "none"
    page = 'context {counter(page).display("1 / 1", both: true)}' if layout.has_page_numbers else "[]"
    footer = (
        f"{{{small}; grid(columns: (1fr, auto, 1fr), align: (left, center, right), "
        f"text({literal(layout.footer)}), text({literal(layout.timestamp)}), {page})}}"
        if layout.footer or layout.timestamp or layout.has_page_numbers
        else "none"
    )
    return f"header: {header}, footer: {footer}, foreground: {_watermark(layout.watermark)}"


def _watermark(text: str) -> str:
    if not text:
        return "none"
    size = max(12.0, min(64.0, 900.0 / max(1, len(text))))
    return f"rotate(-45deg, text(size: {size:.0f}pt, fill: luma(120).transparentize(75%), {literal(text)}))"


def _find_missing(text: str, fonts: Fonts, font_rule: str) -> list[str]:
    """Return the characters that no font has. PDF/A forbids such characters, and Typst then names them."""
    distinct = [
        character
        for character in dict.fromkeys(text)
        if ord(character) > 0xFF and unicodedata.category(character)[0] not in _HIDDEN_KINDS
    ][:MAX_CHECKED]
    parts = "; ".join(f"text({literal(character)})" for character in distinct)
    source = f"#{{set document(date: none); {font_rule}\npar({{{parts}}})}}"
    named = set(_MISSING.findall(find_problems(source, fonts)))
    return [character for character in distinct if character in named]
