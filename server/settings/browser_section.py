"""The section for the browser of the component Browser."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ragflow_lg.adapters.browser.browser_settings import BrowserSettings
from ragflow_lg.server.settings.sections import Section

_DEFAULTS = BrowserSettings()
Size = Annotated[int, Field(gt=0)]


class BrowserSection(Section):
    """``[browser]``: Chromium, and what one browser may use. See ``docs/browser.md``."""

    executable: str = ""
    """Path of Chromium. Default: the installed one."""
    sandbox: bool = _DEFAULTS.sandbox
    """Whether Chromium isolates pages from the system. It cannot do so as root; then Browser refuses to run."""
    headless: bool = _DEFAULTS.headless
    """Whether Chromium runs without a window."""
    slots: Annotated[int, Field(gt=0, le=64)] = _DEFAULTS.slots
    """How many browsers are open at the same time. No tenant uses all of these slots."""
    queue: Size = _DEFAULTS.queue
    """How many of a tenant's nodes may wait for a browser."""
    step_s: Annotated[float, Field(ge=1, le=600)] = _DEFAULTS.step_s
    """Time limit for one action."""
    memory_bytes: Annotated[int, Field(ge=256 * 1024**2)] = _DEFAULTS.memory_bytes
    """Maximum memory of a browser and its pages."""
    traffic_bytes: Size = _DEFAULTS.traffic_bytes
    """How many bytes a browser may transfer."""
    download_bytes: Size = _DEFAULTS.download_bytes
    """Maximum size of a browser's downloads together."""
    downloads: Annotated[int, Field(ge=0)] = _DEFAULTS.downloads
    """Maximum number of a browser's downloads."""
    page_chars: Annotated[int, Field(ge=500, le=100_000)] = _DEFAULTS.page_chars
    """How many characters of a page the model sees at once."""
    screenshots: bool = _DEFAULTS.screenshots
    """Whether each step keeps a screenshot for the trace."""

    @property
    def settings(self) -> BrowserSettings:
        """The settings of the browser."""
        return BrowserSettings(**{name: getattr(self, name) for name in BrowserSettings.__struct_fields__})
