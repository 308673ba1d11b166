"""Settings of the browser. Reading them does not import Playwright."""

from __future__ import annotations

from typing import ClassVar

from ragflow_lg.server.settings.sections import Section


class BrowserSection(Section):
    """``[browser]``: Chromium, and what one browser may use. See ``ragflow_lg/integrations/browser/browser.md``."""

    executable: str = ""
    """Path of Chromium. Default: the installed one."""
    sandbox: bool = True
    """Whether Chromium isolates pages from the system. It cannot do so as root; then Browser refuses to run."""

    slots: ClassVar[int] = 4
    """How many browsers are open at the same time. No tenant uses all of these slots."""
    headless: ClassVar[bool] = True
    queue: ClassVar[int] = 50
    step_s: ClassVar[float] = 30.0
    """Time limit for one action."""
    memory_bytes: ClassVar[int] = 2 * 1024**3
    """Maximum memory of a browser and its pages."""
    traffic_bytes: ClassVar[int] = 512 * 1024**2
    """Maximum number of bytes that a browser receives and sends."""
    download_bytes: ClassVar[int] = 64 * 1024**2
    """Maximum size of a browser's downloads together."""
    downloads: ClassVar[int] = 20
    """Maximum number of a browser's downloads."""
    page_chars: ClassVar[int] = 8_000
    """Maximum length of the part of a page that the model sees at once."""
    screenshots: ClassVar[bool] = True
    """Whether each step keeps a screenshot."""
