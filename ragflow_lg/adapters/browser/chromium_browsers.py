"""Browsers for the runs of all tenants, a limited number at the same time."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager

from msgspec import Struct

from ragflow_lg.adapters.browser.browser_settings import BrowserSettings
from ragflow_lg.adapters.browser.chromium_browser import ChromiumBrowser
from ragflow_lg.adapters.browser.chromium_process import check_user, find_chromium
from ragflow_lg.adapters.http.address_guard import AddressGuard, Resolver, resolve_host
from ragflow_lg.adapters.workers.fair_slots import FairSlots
from ragflow_lg.base.extras import require
from ragflow_lg.services.browsers import Browser, Browsers


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
        self._slots = FairSlots(settings.slots, settings.queue, "for a browser")

    def allowing(self, allow: Iterable[str]) -> ChromiumBrowsers:
        """Return browsers that share these slots, but can reach other internal addresses."""
        browsers = ChromiumBrowsers(self._settings, allow, resolve=self._resolve)
        browsers._slots = self._slots
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
        """Open a browser for no tenant in particular."""
        async with self.open_for("") as browser:
            yield browser

    @asynccontextmanager
    async def open_for(self, tenant: str) -> AsyncGenerator[Browser]:
        """Open a browser when it is the tenant's turn.

        Raises:
            SettingsError: if there is no browser.
        """
        self.find()
        async with self._slots.slot(tenant):
            browser = ChromiumBrowser(self._settings, self._guard)
            try:
                yield browser
            finally:
                await browser.aclose()

    def for_tenant(self, tenant: str) -> Browsers:
        """Return the browsers as one tenant uses them."""
        return _TenantBrowsers(self, tenant)


class _TenantBrowsers(Struct, frozen=True):
    """The `Browsers` of one tenant."""

    shared: ChromiumBrowsers
    tenant: str

    def check(self) -> None:
        """Check that Chromium can be used."""
        self.shared.check()

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Browser]:
        """Open a browser."""
        async with self.shared.open_for(self.tenant) as browser:
            yield browser

    def for_tenant(self, tenant: str) -> Browsers:
        """Return the browsers as another tenant uses them."""
        return self.shared.for_tenant(tenant)
