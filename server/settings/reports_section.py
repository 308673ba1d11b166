"""The section for documents that agents write."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ragflow_lg.adapters.reports.report_settings import Paper, ReportSettings
from ragflow_lg.server.settings.sections import Section

_DEFAULTS = ReportSettings()


class ReportsSection(Section):
    """``[reports]``: fonts, paper, images and limits of DocGenerator and of Message's ``output_format``."""

    fonts: tuple[str, ...] = ()
    """Families of fonts that precede the built-in one, by name."""
    font_folders: tuple[str, ...] = ()
    """Folders with further fonts."""
    system_fonts: bool = True
    """Whether PDF files use the fonts of the system."""
    paper: Paper = _DEFAULTS.paper
    """The size of pages."""
    fetch_images: bool = False
    """Whether images at web addresses are fetched, under the rules of ``[http]``."""
    inline_bytes: Annotated[int, Field(ge=0, le=4 * 1024**2)] = _DEFAULTS.inline_bytes
    """Maximum size of a file that the output ``download`` contains as Base64."""
    max_chars: Annotated[int, Field(gt=0, le=8 * 1024**2)] = _DEFAULTS.max_chars
    """Maximum length of a text."""
    max_images: Annotated[int, Field(ge=0)] = _DEFAULTS.max_images
    """Maximum number of images in a text."""
    image_bytes: Annotated[int, Field(ge=0)] = _DEFAULTS.image_bytes
    """Maximum total size of the images in a text."""

    @property
    def settings(self) -> ReportSettings:
        """The settings of the writer."""
        return ReportSettings(**{name: getattr(self, name) for name in ReportSettings.__struct_fields__})
