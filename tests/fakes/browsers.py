"""Real Chromium for tests, which may reach some servers of the test only."""

from __future__ import annotations

import shutil
from typing import ClassVar

import pytest

from ragflow_lg.integrations.browser.browser_settings import BrowserSection
from ragflow_lg.integrations.browser.chromium_browser import ChromiumBrowsers
from ragflow_lg.integrations.browser.chromium_process import NAMES

has_chromium = any(map(shutil.which, NAMES))
NO_CHROMIUM = "Chromium is not installed"
needs_chromium = [pytest.mark.slow, pytest.mark.skipif(not has_chromium, reason=NO_CHROMIUM)]


class SmallBrowser(BrowserSection):
    """Tests run as root in containers, where Chromium has no sandbox of its own."""

    sandbox: bool = False
    step_s: ClassVar[float] = 8.0
    download_bytes: ClassVar[int] = 4 * 1024**2
    traffic_bytes: ClassVar[int] = 16 * 1024**2


SMALL = SmallBrowser()


def open_browsers(*ports: int, settings: BrowserSection = SMALL) -> ChromiumBrowsers:
    """Return browsers that can reach these ports of this machine, and no other internal address."""
    return ChromiumBrowsers(settings, [f"127.0.0.1:{port}" for port in ports])
