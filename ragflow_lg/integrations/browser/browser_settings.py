"""Settings of the browser, and their section. Reading them does not import Playwright."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct
from pydantic import Field

from ragflow_lg.server.settings.sections import Section


class BrowserSettings(Struct, frozen=True):
    """Where Chromium is, and the limits of one browser. Source of the names: the section ``[browser]``."""

    executable: str = ""
    """Path of Chromium. Default: the installed one."""
    sandbox: bool = True
    """Whether Chromium isolates its pages from the system. It cannot do so as root."""
    headless: bool = True
    slots: int = 4
    queue: int = 50
    step_s: float = 30.0
    """Time limit for one action."""
    memory_bytes: int = 2 * 1024**3
    """Maximum memory of a browser and its pages."""
    traffic_bytes: int = 512 * 1024**2
    """Maximum number of bytes that a browser receives and sends."""
    download_bytes: int = 64 * 1024**2
    """Maximum size of a browser's downloads together."""
    downloads: int = 20
    """Maximum number of a browser's downloads."""
    page_chars: int = 8_000
    """Maximum length of the part of a page that the model sees at once."""
    screenshots: bool = True
    """Whether each step keeps a screenshot."""


class BrowserSection(Section):
    """``[browser]``: Chromium, and what one browser may use. See ``docs/browser.md``."""

    executable: str = ""
    """Path of Chromium. Default: the installed one."""
    sandbox: bool = True
    """Whether Chromium isolates pages from the system. It cannot do so as root; then Browser refuses to run."""
    slots: Annotated[int, Field(gt=0, le=64)] = 4
    """How many browsers are open at the same time. No tenant uses all of these slots."""

    @property
    def settings(self) -> BrowserSettings:
        """The settings of the browser."""
        return BrowserSettings(self.executable, sandbox=self.sandbox, slots=self.slots)
