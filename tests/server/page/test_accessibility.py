"""The page with a keyboard, for screen readers (axe), in both themes, and on screens of every width."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.async_api import Browser, Page, expect

from ragflow_lg.server.settings.limits_section import PausesSection
from tests.fakes.browsers import needs_chromium
from tests.fakes.services import Reply
from tests.server.cli.command import ROOT
from tests.server.http.app_server import FORM, MODEL, start_app
from tests.server.page.visits import HOSTILE, ask, choose_action, open_agent, visit

pytestmark = needs_chromium

AXE = find_spec("axe_playwright_python")
"""The distribution contains axe-core, which is run as a script of the test: the page's policy stays as it is."""
RUN = "axe.run(document, {resultTypes: ['violations']}).then((found) => found.violations)"
WIDTHS = (360, 768, 1280, 3840)
Theme = Literal["light", "dark"]
LONG = "a-word-without-any-space" * 20


async def find_problems(page: Page) -> list[str]:
    assert AXE is not None
    assert AXE.origin is not None
    if not await page.evaluate("Boolean(window.axe)"):
        await page.evaluate(Path(AXE.origin).with_name("axe.min.js").read_text("utf-8"))
    found: list[dict[str, Any]] = await page.evaluate(RUN)
    return [
        f"{each['id']}: {node['html'][:150]} {node['failureSummary'][:300]}"
        for each in found
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]


async def check_all(page: Page) -> None:
    """Check what the page shows now in both themes."""
    problems: list[str] = []
    for theme in ("dark", "light"):
        await page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        problems += [f"{theme}: {each}" for each in await find_problems(page)]
    assert not problems, "\n".join(problems)


async def check_widths(page: Page) -> None:
    for width in WIDTHS:
        await page.set_viewport_size({"width": width, "height": 800})
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
    await page.set_viewport_size({"width": 1400, "height": 900})


@pytest.mark.skipif(AXE is None, reason="axe-playwright-python is not installed")
async def test_a_form_says_when_it_ends_and_what_happens_then(browser: Browser, tmp_path: Path) -> None:
    sections = {"pauses": PausesSection(timeout_s=7500)}
    async with start_app(tmp_path, sections=sections) as server, visit(browser, server.url, server.key) as shown:
        page = shown.page
        await open_agent(server, page, FORM)
        await ask(page, "hello")
        form = page.get_by_role("form", name="UserFillUp:0")
        cancelled = form.get_by_text("Without an answer, the turn is cancelled in 2 hours.")
        await expect(cancelled).to_be_visible()  # the field is required and has no value
        await check_all(page)
        await check_widths(page)


@pytest.mark.skipif(AXE is None, reason="axe-playwright-python is not installed")
async def test_axe_finds_nothing_serious_and_nothing_scrolls_sideways(browser: Browser, tmp_path: Path) -> None:
    replies = [Reply(text=f"# Answer\n\n{HOSTILE}\n\n| a | b |\n|-|-|\n| {LONG} | 2 |\n\n`{LONG}`", reasoning="Hm.")]
    async with start_app(tmp_path, replies) as server, visit(browser, server.url, "") as shown:
        page = shown.page
        await expect(page.get_by_label("API key")).to_be_visible()
        await check_all(page)
        await page.get_by_label("API key").fill(server.key)
        await page.get_by_role("button", name="Sign in").click()
        await page.set_input_files("input[type=file]", ROOT / "examples" / "order_form.json")
        await expect(page.get_by_text("It can run.")).to_be_visible()
        await server.agent(FORM, LONG[:100])
        await check_all(page)
        await check_widths(page)
        await open_agent(server, page, MODEL, HOSTILE[:60])
        await ask(page, LONG)
        await expect(page.locator(".message.assistant").last).to_have_attribute("data-status", "succeeded")
        await check_all(page)
        await check_widths(page)
        await page.locator("[data-node='LLM:0']").click()
        for tool in ("Draft", "Run alone"):
            await page.locator(".drawer").get_by_role("button", name=tool).click()
            await expect(page.get_by_role("region", name=tool)).to_be_visible()
            await check_all(page)
        for tab in ("Run", "Values"):
            await page.get_by_role("tab", name=tab).click()
            await check_all(page)
            await check_widths(page)
        for name in ("Compare", "Use it from programs"):
            await choose_action(page, name)
            await expect(page.get_by_role("region", name=name)).to_be_visible()
            await check_all(page)
            await check_widths(page)


@pytest.mark.skipif(AXE is None, reason="axe-playwright-python is not installed")
async def test_the_reference_describes_the_routes_and_axe_finds_nothing_serious(
    browser: Browser, tmp_path: Path
) -> None:
    async with start_app(tmp_path) as server, visit(browser, server.url, server.key) as shown:
        page = shown.page
        await page.goto(f"{server.url}/docs")
        await page.get_by_role("searchbox").fill("Answer a run")
        await expect(page.locator(".operation")).to_have_count(1)
        await page.get_by_text("POST /native/v1/agents/{agent_id}/runs/{run_id}/resume").click()
        await expect(page.locator(".operation")).to_contain_text("422")
        await check_all(page)
        await check_widths(page)


async def test_a_conversation_needs_no_pointer(browser: Browser, tmp_path: Path) -> None:
    async with (
        start_app(tmp_path, [Reply(text="Fine."), Reply(text="Better.")]) as server,
        visit(browser, server.url, server.key) as shown,
    ):
        page = shown.page
        await server.agent(MODEL, "Helper")
        await page.reload()

        async def tab_to(role: Literal["button", "textbox", "tab"], name: str) -> None:
            wanted = page.get_by_role(role, name=name)
            await expect(wanted.first).to_be_visible()
            for _ in range(60):
                if await wanted.first.evaluate("(element) => element === document.activeElement"):
                    return
                await page.keyboard.press("Tab")
            raise AssertionError(f"{name} cannot be reached")

        await tab_to("button", "Helper")
        await page.keyboard.press("Enter")
        await tab_to("textbox", "Your message")
        await page.keyboard.type("Hello")
        await page.keyboard.press("Shift+Enter")
        await page.keyboard.type("there")
        await page.keyboard.press("Enter")
        await expect(page.locator(".message.assistant")).to_contain_text("Fine.")
        await expect(page.locator(".message.user")).to_have_text("Hello\nthere")
        await tab_to("tab", "Graph")
        await page.keyboard.press("ArrowLeft")
        await expect(page.get_by_role("tab", name="Values")).to_have_attribute("aria-selected", "true")
        await expect(page.get_by_role("slider", name="Step")).to_be_visible()
        await tab_to("button", "Edit")
        await page.keyboard.press("Enter")
        await page.keyboard.type(", again")
        await tab_to("button", "Send again")
        await page.keyboard.press("Enter")
        await expect(page.locator(".message.assistant")).to_contain_text("Better.")
