"""Browsers for the runs of all tenants, a limited number at the same time."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from copy import copy

from ragflow_lg.adapters.browser.browser_settings import BrowserSettings
from ragflow_lg.adapters.browser.chromium_browser import ChromiumBrowser
from ragflow_lg.adapters.browser.chromium_process import check_user, find_chromium
from ragflow_lg.adapters.http.address_guard import AddressGuard, Resolver, resolve_host
from ragflow_lg.adapters.workers.slots import Slots
from ragflow_lg.base.extras import require
from ragflow_lg.services.browsers import Browser


class ChromiumBrowsers:
    """The `ragflow_lg.services.browsers.Browsers` that start Chromium.

    ``allow`` lists the internal addresses that pages can reach, as for `AddressGuard`.
    """

    def __init__(
        self, settings: BrowserSettings, allow: Iterable[str] = (), *, resolve: Resolver = resolve_host
    ) -> None:
        self._settings = settings
        self._resolve = resolve
        self._guard = AddressGuard(allow, resolve=resolve)
        self._slots = Slots(settings.slots, settings.queue, "for a browser")

    def allowing(self, allow: Iterable[str]) -> ChromiumBrowsers:
        """Return browsers that share these slots, but can reach other internal addresses."""
        browsers = copy(self)
        browsers._guard = AddressGuard(allow, resolve=self._resolve)
        return browsers

    def find(self) -> str:
        """Return the path of the Chromium that is used.

        Raises:
            SettingsError: if Browser cannot be used, with the reason.
        """
        require("browser", "The component Browser")
        check_user(self._settings)
        return find_chromium(self._settings)

    def check(self) -> None:
        """Check that Chromium can be used."""
        self.find()

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Browser]:
        """Open a browser as soon as a slot is free.

        Raises:
            SettingsError: if there is no browser.
        """
        self.find()
        async with self._slots.slot():
            browser = ChromiumBrowser(self._settings, self._guard)
            try:
                yield browser
            finally:
                await browser.aclose()
