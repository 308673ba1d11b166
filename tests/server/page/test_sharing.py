"""Ratings of answers, and links to conversations, in a real Chromium."""

from pathlib import Path

from playwright.async_api import Browser, Page, expect
from sqlalchemy import update

from ragflow_lg.server.database.tables import MessageRow, RunRow
from tests.fakes.browsers import needs_chromium
from tests.fakes.services import Reply
from tests.server.http.app_server import AppServer, start_app
from tests.server.page.test_talk import DESK
from tests.server.page.visits import HOSTILE, OF_TALK, ask, choose_action, open_agent, visit

pytestmark = needs_chromium


async def read_feedback(server: AppServer, agent: str) -> list[tuple[str, str]]:
    listed = await server.get(f"{server.url}/native/v1/agents/{agent}/feedback")
    return [(row["rating"], row["note"]) for row in listed["feedback"]]


async def rate_badly(page: Page, note: str) -> None:
    await page.get_by_role("button", name="Bad answer").press("Enter")
    await page.get_by_label("What was wrong?").fill(note)
    await page.get_by_role("button", name="Send note").click()
    await expect(page.get_by_label("What was wrong?")).to_have_count(0)  # it is stored
    await expect(page.get_by_text(f"“{note}”")).to_be_visible()


async def test_an_answer_is_rated_here_and_in_an_embedded_page(browser: Browser, tmp_path: Path) -> None:
    replies = [Reply("It is in Hamburg."), Reply("It is in Rome.")]
    async with start_app(tmp_path, replies) as server, visit(browser, server.url, server.key) as shown:
        page = shown.page
        good, bad = (page.get_by_role("button", name=f"{name} answer") for name in ("Good", "Bad"))
        agent = await open_agent(server, page, DESK)
        await ask(page, "Where is it?")
        await good.click()
        await expect(page.get_by_label("What was good?")).to_be_visible()
        await rate_badly(page, "It was *Rome*")
        await page.reload()
        await expect(bad).to_have_attribute("aria-pressed", "true")
        await expect(good).to_have_attribute("aria-pressed", "false")
        await expect(page.get_by_text("“It was *Rome*”")).to_be_visible()
        async with page.expect_download() as download:
            await choose_action(page, "Export as Markdown", OF_TALK)
        saved = (await (await download.value).path()).read_text("utf-8")
        assert "Rated: Bad answer – It was \\*Rome\\*" in saved
        await bad.click()
        await expect(bad).to_have_attribute("aria-pressed", "false")
        await expect(page.get_by_text("“It was")).to_have_count(0)
        await page.goto(f"{server.url}/chat/{agent}#auth={await server.new_key(kind='beta', agents=[agent])}")
        await ask(page, "Where is it?")
        await rate_badly(page, "Old")
        assert await read_feedback(server, agent) == [("down", "Old")]


async def test_others_read_a_conversation_until_its_link_is_revoked(browser: Browser, tmp_path: Path) -> None:
    replies = [Reply("It is in **Hamburg**.", reasoning="I look it up.")]
    async with start_app(tmp_path, replies) as server, visit(browser, server.url, server.key) as shown:
        page = shown.page
        await open_agent(server, page, DESK)
        await ask(page, HOSTILE)
        await expect(page.get_by_role("button", name="Good answer")).to_be_visible()
        await choose_action(page, "Share …", OF_TALK)
        await page.get_by_role("button", name="Create link").click()
        link = await page.get_by_label("Link", exact=True).input_value()
        await page.keyboard.press("Escape")
        guest = await (await browser.new_context()).new_page()
        await guest.goto(link)
        await expect(guest.get_by_role("heading", level=1)).to_contain_text("window.hacked=1")
        await expect(guest.get_by_text("A conversation with Helper, read only")).to_be_visible()
        await expect(guest.locator(".message.user")).to_have_text(HOSTILE)
        await expect(guest.locator(".message.assistant strong")).to_have_text("Hamburg")
        await expect(guest.get_by_role("textbox")).to_have_count(0)
        await expect(guest.get_by_role("button", name="Copy")).to_have_count(1)
        for name in ("Retry", "Good answer", "Edit"):
            await expect(guest.get_by_role("button", name=name)).to_have_count(0)
        database = server.app_state.database
        await database.execute(update(RunRow).values(status="failed", error="Secret cause"))
        await database.execute(update(MessageRow).values(is_form=True))
        await guest.reload()
        await expect(guest.locator(".message.user")).to_have_text("Form answered")
        await expect(guest.get_by_role("alert")).to_have_text("The answer failed")
        await database.execute(update(RunRow).values(status="cancelled"))
        await guest.reload()
        await expect(guest.get_by_text("Stopped", exact=True)).to_be_visible()
        await expect(guest.locator(".message.assistant strong")).to_have_text("Hamburg")
        assert "look it up" not in await guest.content()
        assert await guest.evaluate("window.hacked") is None
        await choose_action(page, "Share …", OF_TALK)
        await expect(page.get_by_text("There is a link. A new one replaces it.")).to_be_visible()
        await page.get_by_role("button", name="Revoke link").click()
        await expect(page.get_by_text("The link does not work any more.")).to_be_visible()
        answer = await guest.reload()
        assert answer is not None
        assert answer.status == 404
        await expect(guest.get_by_role("heading", name="This link does not work")).to_be_visible()
