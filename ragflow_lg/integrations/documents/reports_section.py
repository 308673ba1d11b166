"""The section ``[reports]`` of the settings."""

from __future__ import annotations

from ragflow_lg.integrations.documents.report_settings import Paper, ReportSettings
from ragflow_lg.server.settings.sections import Section


class ReportsSection(Section):
    """``[reports]``: fonts, paper, images and limits of DocGenerator and of Message's ``output_format``."""

    fonts: tuple[str, ...] = ()
    """Families of fonts that precede the built-in one, by name."""
    font_folders: tuple[str, ...] = ()
    """Folders with further fonts."""
    system_fonts: bool = True
    """Whether PDF files use the fonts of the system."""
    paper: Paper = "a4"
    """The size of pages."""
    fetch_images: bool = False
    """Whether images at web addresses are fetched, under the rules of ``[http]``."""

    @property
    def settings(self) -> ReportSettings:
        """The settings of the writer."""
        return ReportSettings(**self.model_dump())
