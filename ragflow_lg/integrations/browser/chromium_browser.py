"""Actions on pages in Chromium, and a limited number of browsers for the runs of all tenants."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager, suppress
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ragflow_lg.adapters.http.address_guard import AddressGuard, Resolver, resolve_host
from ragflow_lg.adapters.workers.slots import Slots
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.base.extras import require
from ragflow_lg.checkpoints.check_result import CheckResult
from ragflow_lg.integrations.browser.browser_settings import BrowserSection
from ragflow_lg.integrations.browser.browsers import Browser, BrowserAction, PageView
from ragflow_lg.integrations.browser.chromium_process import (
    HEIGHT,
    ChromiumProcess,
    check_user,
    find_chromium,
    reason_of,
)
from ragflow_lg.integrations.browser.chromium_tabs import ChromiumTabs

if TYPE_CHECKING:
    from playwright.async_api import Locator, Page

    from ragflow_lg.server.settings import Settings
    from ragflow_lg.services.services import Services

MAX_PAGE_SIZE = 5_000_000
"""A page is not described if its texts, attributes and elements are larger than this."""
MAX_TITLE_CHARS = 300
MAX_ADDRESS_CHARS = 2_000
ELEMENT_S = 5.0
"""How long an action waits for its element."""
REACTION_S = 0.2
"""How long a page may take to react: Chromium reports new windows and downloads a moment after their cause."""
SETTLE_S = 1.5
"""How long a page may go on to load before it is described."""
SCREENSHOT_S = 5.0
LOAD_SHARE = 0.6
"""The share of an action's time in which a page must load."""

KEYS = ("Enter", "Escape", "Tab", "Backspace", "Delete", "Space", "Home", "End", "PageUp", "PageDown")
ARROWS = ("ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight")

_REF = re.compile(r"(?:f\d{1,4})?e\d{1,7}")
_EMPTY = "about:blank"
_SCHEMES = ("http", "https", "about", "blob", "chrome-error")

# In a world of its own, in which the page has replaced nothing.
_MEASURE = Path(__file__).with_name("measure_page.js").read_text("utf-8").strip()


class ChromiumBrowser:
    """A `Browser`. Chromium starts with the first action, and again if it was killed."""

    def __init__(self, settings: BrowserSection, guard: AddressGuard) -> None:
        self._settings = settings
        self._guard = guard
        self._process: ChromiumProcess | None = None
        self._tabs: ChromiumTabs | None = None

    async def act(self, action: BrowserAction) -> PageView:
        """Perform an action and return what the page shows then."""
        from playwright.async_api import Error

        _check(action)
        tabs = await self._open_tabs()
        step_s = self._settings.step_s
        try:
            async with asyncio.timeout(step_s):
                page = await tabs.current()
                await self._perform(page, tabs, action)
                return await self._view(tabs, action)
        except TimeoutError:
            reason = f"the page did not react within {step_s:g} s"
        except Error as error:
            if (process := self._process) is not None and process.is_running:
                raise ServiceError(self._explain(error)) from None
            reason = (process.excess if process else "") or "it crashed"
        await self.aclose()
        raise ServiceError(f"The browser was closed, because {reason}. Open a page to go on with a new one.")

    async def _open_tabs(self) -> ChromiumTabs:
        """Return the pages, after starting Chromium if it does not run."""
        process = self._process
        if self._tabs is not None and process is not None and process.is_running:
            return self._tabs
        excess = process.excess if process is not None else ""
        await self.aclose()
        if excess:
            raise ServiceError(f"The browser was closed, because {excess}. Open a page to go on with a new one.")
        self._process = ChromiumProcess(self._settings, self._guard)
        self._tabs = ChromiumTabs(await self._process.start(), self._process, self._settings)
        return self._tabs

    async def aclose(self) -> None:
        """Kill Chromium."""
        tabs, process, self._tabs, self._process = self._tabs, self._process, None, None
        try:
            if tabs is not None:
                await tabs.aclose()
        finally:
            if process is not None:
                await process.aclose()

    def _explain(self, error: Exception) -> str:
        """Return why an action failed: the refusal of an address, or else Playwright's reason."""
        refusals = self._process.proxy.take_refusals() if self._process else []
        if self._process is not None and self._process.proxy.is_exhausted:
            refusals.append(f"The browser has transferred {self._settings.traffic_bytes:,} bytes, which is its limit.")
        return " ".join(refusals) or f"The browser cannot do this: {reason_of(error)}"

    # Actions

    async def _perform(self, page: Page, tabs: ChromiumTabs, action: BrowserAction) -> None:
        match action.kind:
            case "open":
                await self._open(page, tabs, action.address)
            case "click":
                await (await _find(page, action.ref)).click(timeout=ELEMENT_S * 1000)
            case "fill":
                await (await _find(page, action.ref)).fill(action.text, timeout=ELEMENT_S * 1000)
                if action.is_submitted:
                    await (await _find(page, action.ref)).press("Enter", timeout=ELEMENT_S * 1000)
            case "select":
                await (await _find(page, action.ref)).select_option(action.text, timeout=ELEMENT_S * 1000)
            case "press":
                await page.keyboard.press(action.text)
            case "upload":
                file = action.file
                assert file is not None
                await (await _find(page, action.ref)).set_input_files(
                    {"name": file.name, "mimeType": file.media_type, "buffer": file.content}, timeout=ELEMENT_S * 1000
                )
            case "scroll":
                await page.mouse.wheel(0, (HEIGHT * 0.8) * (1 if action.direction == "down" else -1))
            case "back":
                await page.go_back(wait_until="domcontentloaded", timeout=self._settings.step_s * LOAD_SHARE * 1000)
            case "read" | "screenshot":
                pass

    async def _open(self, page: Page, tabs: ChromiumTabs, address: str) -> None:
        from playwright.async_api import Error, TimeoutError

        load_s = self._settings.step_s * LOAD_SHARE
        try:
            response = await page.goto(address, wait_until="domcontentloaded", timeout=load_s * 1000)
        except Error as error:
            if "Download is starting" in str(error):
                return
            await page.close()  # it may run a script without end, or be about to show why it failed
            if isinstance(error, TimeoutError):
                raise ServiceError(f"The page did not load within {load_s:g} s.") from None
            raise
        if response is not None and not response.ok:
            tabs.note(f"The server answered with the status {response.status}.")

    # What the page shows

    async def _view(self, tabs: ChromiumTabs, action: BrowserAction) -> PageView:
        from playwright.async_api import Error

        if action.kind not in ("read", "screenshot"):
            await asyncio.sleep(REACTION_S)
            for state in ("load", "networkidle"):
                with suppress(Error):
                    await (await tabs.current()).wait_for_load_state(state, timeout=SETTLE_S * 1000)
        downloads = await tabs.take_downloads(self._settings.step_s / 2)
        page = await tabs.current()
        if urlsplit(page.url).scheme not in _SCHEMES:
            tabs.note("The browser left a page whose address does not begin with http:// or https://.")
            await page.goto(_EMPTY)
        for reason in self._process.proxy.take_refusals() if self._process else ():
            tabs.note(reason)
        text = await _describe(page)
        offset = min(max(action.offset, 0), len(text))
        screenshot = await _take_screenshot(page) if self._settings.screenshots or action.kind == "screenshot" else b""
        return PageView(
            page.url[:MAX_ADDRESS_CHARS],
            " ".join((await page.title())[: 4 * MAX_TITLE_CHARS].split())[:MAX_TITLE_CHARS],
            text[offset : offset + self._settings.page_chars],
            offset,
            len(text),
            tabs.take_notes(),
            downloads,
            screenshot,
        )


class ChromiumBrowsers:
    """The `Browsers` that start Chromium.

    ``allow`` lists the internal addresses that pages can reach, as for `AddressGuard`.
    """

    def __init__(
        self, settings: BrowserSection, allow: Iterable[str] = (), *, resolve: Resolver = resolve_host
    ) -> None:
        self._settings = settings
        self._resolve = resolve
        self._guard = AddressGuard(allow, resolve=resolve)
        self._slots = Slots(settings.slots, settings.queue, "for a browser")

    def for_tenant(self, settings: Settings, services: Services) -> ChromiumBrowsers:
        """Return browsers that share these slots, but can reach other internal addresses."""
        browsers = copy(self)
        browsers._guard = AddressGuard(settings.http.allow, resolve=self._resolve)
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


@asynccontextmanager
async def open_browsers(settings: Settings, services: Services) -> AsyncGenerator[ChromiumBrowsers]:
    """Open the browsers that the settings describe."""
    yield ChromiumBrowsers(settings.section(BrowserSection), settings.http.allow)


async def probe_browser(settings: Settings) -> list[CheckResult]:
    """Report which Chromium Browser uses; none if its package is not installed."""
    section = settings.section(BrowserSection)
    try:
        require("browser", "Browser")
    except SettingsError:
        return []
    try:
        path = ChromiumBrowsers(section).find()
    except SettingsError as error:
        return [CheckResult(not section.executable, "Browser cannot be used", str(error))]
    isolation = "with its sandbox" if section.sandbox else "without its sandbox"
    return [CheckResult(True, f"Browser uses {path} {isolation}")]


def _check(action: BrowserAction) -> None:
    """Check what a model has written."""
    if action.kind == "open":
        try:
            parts = urlsplit(action.address.strip())
        except ValueError:
            parts = urlsplit("")
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ServiceError("The address must be complete and begin with http:// or https://.")
    elif action.kind in ("click", "fill", "select", "upload") and not _REF.fullmatch(action.ref):
        raise ServiceError("The reference must be one of the page's elements, such as e12.")
    elif action.kind == "press" and action.text not in (*KEYS, *ARROWS):
        raise ServiceError(f"The key must be one of {', '.join((*KEYS, *ARROWS))}.")


async def _find(page: Page, ref: str) -> Locator:
    element = page.locator(f"aria-ref={ref}")
    if not await element.count():
        raise ServiceError(f"The page has no element {ref} any more. Read the page again for its current elements.")
    return element


async def _describe(page: Page) -> str:
    """Return the page as a tree of its elements, with references."""
    session: Any = await page.context.new_cdp_session(page)  # its answers are untyped
    try:
        tree = await session.send("Page.getFrameTree")
        world = await session.send("Page.createIsolatedWorld", {"frameId": tree["frameTree"]["frame"]["id"]})
        measured = await session.send(
            "Runtime.evaluate",
            {
                "expression": f"{_MEASURE}({MAX_PAGE_SIZE})",
                "contextId": world["executionContextId"],
                "returnByValue": True,
            },
        )
        size = measured.get("result", {}).get("value", 0)
    finally:
        await session.detach()
    if not isinstance(size, int | float) or size > MAX_PAGE_SIZE:
        return "(The page is too large to be described.)"
    return await page.aria_snapshot(mode="ai")


async def _take_screenshot(page: Page) -> bytes:
    """Return the visible part of the page, or ``b""`` if the page does not allow it in time."""
    from playwright.async_api import Error

    try:
        return await page.screenshot(
            type="jpeg", quality=60, animations="disabled", timeout=SCREENSHOT_S * 1000, scale="css"
        )
    except Error:
        return b""
