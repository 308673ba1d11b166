"""Visits of the page in a real Chromium, which report what went wrong in it."""

import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from msgspec import Struct
from playwright.async_api import Browser, Page, async_playwright, expect

from ragflow_lg.integrations.browser.chromium_process import NAMES
from tests.server.http.app_server import AppServer

expect.set_options(timeout=40_000)  # the machine may be busy

HOSTILE = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>"\'&lt;{{7*7}}'

OF_TALK = "Menu of the conversation"


class Visit(Struct):
    """A page, what went wrong in it, and parts of what may.

    Chromium reports each request that fails as an error, at any later moment.
    """

    page: Page
    problems: list[str]
    expected: list[str]


@asynccontextmanager
async def start_browser(*options: str) -> AsyncGenerator[Browser]:
    executable = next(path for name in NAMES if (path := shutil.which(name)))
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=executable, args=["--no-sandbox", *options])
        yield browser
        await browser.close()


@asynccontextmanager
async def visit(browser: Browser, url: str, key: str, site: str = "") -> AsyncGenerator[Visit]:
    """Open the page with a key. At the end, no script has failed, and no request has gone to a server but ``site``."""
    page = await browser.new_page(viewport={"width": 1400, "height": 900})
    shown = Visit(page, [], [])
    page.on("pageerror", lambda error: shown.problems.append(f"error: {error}"))
    page.on("console", lambda line: shown.problems.extend([line.text] if line.type == "error" else []))
    page.on(
        "request", lambda sent: shown.problems.extend([sent.url] if _is_foreign(sent.url, url, site or url) else [])
    )
    try:
        await page.goto(f"{url}/#key={key}")
        yield shown
    finally:
        for context in browser.contexts:  # also those of further tabs
            await context.close()
    problems = [each for each in shown.problems if not any(part in each for part in shown.expected)]
    assert not problems, problems


def _is_foreign(address: str, *urls: str) -> bool:
    return not address.startswith((*(f"{url}/" for url in urls), "data:", "blob:"))


async def open_agent(server: AppServer, page: Page, dsl: dict[str, Any], title: str = "Helper") -> str:
    agent = await server.agent(dsl, title)
    await page.reload()
    await page.get_by_role("button", name=title).click()
    await expect(page.locator(".picture svg")).to_be_visible()
    return agent


async def choose_action(page: Page, name: str, menu: str = "Menu of the run") -> None:
    """Choose something in a menu, by default in the one of the run's panel."""
    await page.get_by_role("button", name=menu, exact=True).click()
    await page.get_by_role("menuitem", name=name).click()


async def ask(page: Page, text: str) -> None:
    await page.get_by_role("textbox", name="Your message").fill(text)
    await page.get_by_role("button", name="Send").click()
