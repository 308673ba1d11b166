"""Settings of the browser. They are separate from it so that reading the settings does not import Playwright."""

from __future__ import annotations

from msgspec import Struct


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
