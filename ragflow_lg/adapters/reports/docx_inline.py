"""The inline content of a report in a Word document: runs, links, images and formulas."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ragflow_lg.adapters.reports.docx_elements import add_element
from ragflow_lg.adapters.reports.docx_formula import add_formula
from ragflow_lg.adapters.reports.images import Picture
from ragflow_lg.adapters.reports.languages import LANGUAGES, is_right_to_left, language_of
from ragflow_lg.adapters.reports.report_tree import (
    Code,
    Image,
    Inline,
    LineBreak,
    Link,
    Math,
    Styled,
    Text,
)
from ragflow_lg.adapters.reports.typst_compiler import CODE_FAMILY, draw_picture

_EMU_PER_PIXEL = 9525
_HYPERLINK = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/hyperlink"


class _Style(NamedTuple):
    is_strong: bool = False
    is_emphasis: bool = False
    is_struck: bool = False
    is_link: bool = False


class InlineWriter:
    """Adds inline content to paragraphs of one document."""

    def __init__(self, document: Any, pictures: Mapping[str, Picture], width: int) -> None:
        self._document = document
        self._pictures = pictures
        self._width = width

    def write(self, paragraph: Any, content: Sequence[Inline], *, is_strong: bool = False) -> None:
        """Add content to a paragraph."""
        self._write(paragraph, paragraph._p, content, _Style(is_strong))

    def write_code(self, paragraph: Any, text: str) -> None:
        """Add code to a paragraph, with its line breaks."""
        self._add_run(paragraph, paragraph._p, text, _Style(), is_code=True)

    def _write(self, paragraph: Any, parent: Any, content: Sequence[Inline], style: _Style) -> None:
        for part in content:
            if isinstance(part, Text | Code):
                self._add_run(paragraph, parent, part.text, style, is_code=isinstance(part, Code))
            elif isinstance(part, Styled):
                inner = style._replace(**{_FLAGS[part.style]: True})
                self._write(paragraph, parent, part.content, inner)
            elif isinstance(part, Link):
                link = self._add_link(paragraph, parent, part.address)
                self._write(paragraph, link, part.content, style._replace(is_link=True))
            elif isinstance(part, Image):
                self._add_image(paragraph, parent, part, style)
            elif isinstance(part, LineBreak):
                self._add_run(paragraph, parent, "\n", style)
            else:
                self._add_math(paragraph, parent, part, style)

    def _add_run(self, paragraph: Any, parent: Any, text: str, style: _Style, *, is_code: bool = False) -> Any:
        from docx.shared import RGBColor

        run = paragraph.add_run(text)
        if run._r.getparent() is not parent:
            parent.append(run._r)
        font = run.font
        font.bold, font.italic, font.strike = (
            style.is_strong or None,
            style.is_emphasis or None,
            style.is_struck or None,
        )
        if is_code:
            font.name = CODE_FAMILY
        if style.is_link:
            font.color.rgb, font.underline = RGBColor(0x1A, 0x4F, 0x9C), True
        _set_language(run, text)
        return run

    def _add_link(self, paragraph: Any, parent: Any, address: str) -> Any:
        from docx.oxml.ns import qn

        link = add_element(parent, "w:hyperlink")
        link.set(qn("r:id"), paragraph.part.relate_to(address, _HYPERLINK, is_external=True))
        return link

    def _add_image(self, paragraph: Any, parent: Any, image: Image, style: _Style) -> None:
        picture = self._pictures.get(image.address)
        is_known = picture is not None and picture.type in ("png", "jpeg", "gif")
        content = None if picture is None else picture.content if is_known else draw_picture(picture)
        if picture is None or content is None:
            self._add_run(paragraph, parent, f"[{image.description or 'image'}]", style._replace(is_emphasis=True))
            return
        width = min(self._width, picture.width * _EMU_PER_PIXEL)
        run = self._add_run(paragraph, parent, "", style)
        shape = run.add_picture(io.BytesIO(content), width=width)
        shape._inline.docPr.set("descr", image.description)

    def _add_math(self, paragraph: Any, parent: Any, math: Math, style: _Style) -> None:
        if math.formula is None:
            self._add_run(paragraph, parent, math.latex, style, is_code=True)
        else:
            add_formula(parent, math.formula, is_block=math.is_block)


_FLAGS = {"emphasis": "is_emphasis", "strong": "is_strong", "strike": "is_struck"}


def _set_language(run: Any, text: str) -> None:
    """Mark a run's language, by which Word chooses the font for Chinese characters, and its direction."""
    if is_right_to_left(text):
        run.font.rtl = True
    language = LANGUAGES.get(language_of(text))
    if language is not None:
        code = f"{language.code}-{language.region}" if language.region else language.code
        add_element(run._r.get_or_add_rPr(), "w:lang", {"w:eastAsia" if language.region else "w:bidi": code})
