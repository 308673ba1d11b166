"""Forms in a real Chromium: what is shown after an answer, after their time, and when somebody else was faster."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page, expect

from ragflow_lg.server.runs.pause_timeouts import CANCELLED, PauseTimeouts
from ragflow_lg.server.settings.limits_section import PausesSection
from tests.fakes.browsers import needs_chromium
from tests.server.http.app_server import APPROVING, AppServer, canvas, start_app
from tests.server.http.native.native_client import native
from tests.server.http.test_approvals import REPLIES
from tests.server.page.visits import Visit, ask, open_agent, visit
from tests.server.runs.test_schedule_runs import Time, start_due

pytestmark = needs_chromium

FORM = canvas(
    ("begin", "Begin", {}, ["UserFillUp:0"]),
    (
        "UserFillUp:0",
        "UserFillUp",
        {
            "enable_tips": True,
            "tips": "Which size?",
            "inputs": {
                "size": {"name": "Size", "type": "integer", "value": 42},
                "more": {"name": "More", "type": "object", "optional": True},
            },
        },
        ["Message:0"],
    ),
    ("Message:0", "Message", {"content": ["Size {UserFillUp:0@size}"]}, []),
)
HOUR_S = 3600


@asynccontextmanager
async def waiting(browser: Browser, folder: Path, **pauses: Any) -> AsyncGenerator[tuple[AppServer, Visit, str]]:
    """Open an agent that has asked its form. Yield also the id of the agent."""
    sections = {"pauses": PausesSection(**pauses)}
    async with start_app(folder, sections=sections) as server, visit(browser, server.url, server.key) as shown:
        agent = await open_agent(server, shown.page, FORM)
        await ask(shown.page, "A shirt")
        await expect(shown.page.locator(".pause")).to_be_visible()
        yield server, shown, agent


async def end_pauses(server: AppServer) -> None:
    """End the forms whose time passes within an hour, as a server does."""
    time = Time()
    time.ms = server.app_state.now_ms() + HOUR_S * 1000
    await start_due(PauseTimeouts(server.app_state, server.turns, time))


async def answer(page: Page, size: str) -> None:
    await page.locator(".pause").get_by_label("Size").fill(size)
    await page.get_by_role("button", name="Answer", exact=True).click()


async def expect_messages(page: Page, *texts: str) -> None:
    await expect(page.locator(".message :is(.plain, .markdown)")).to_have_text(list(texts))


async def expect_the_same_after_a_reload(page: Page, *texts: str) -> None:
    await expect_messages(page, *texts)
    await page.reload()
    await expect_messages(page, *texts)


async def test_an_answer_is_shown_as_it_is_stored(browser: Browser, tmp_path: Path) -> None:
    async with waiting(browser, tmp_path) as (_, shown, _):
        await shown.page.get_by_label("More").fill('{"a": [1, null]}')
        await answer(shown.page, "44")
        entered = 'Size: 44\nMore: {"a": [1, null]}'
        await expect_the_same_after_a_reload(shown.page, "A shirt", "Which size?", entered, "Size 44")
        await shown.page.get_by_role("button", name="Retry").last.click()
        form = shown.page.locator(".pause")
        await expect(form.get_by_label("Size")).to_have_value("44")
        await expect(form.get_by_label("More")).to_have_value('{"a": [1, null]}')
        await expect(shown.page.get_by_role("alert")).to_have_count(0)
        await form.get_by_label("More").fill("")
        await answer(shown.page, "45")
        await expect_the_same_after_a_reload(shown.page, "A shirt", "Which size?", "Size: 45", "Size 45")


async def test_values_that_are_refused_stay_in_the_form(browser: Browser, tmp_path: Path) -> None:
    async with waiting(browser, tmp_path) as (_, shown, _):
        await shown.page.get_by_label("More").fill("{")
        await answer(shown.page, "44")
        await expect(shown.page.locator(".pause .problem")).to_be_visible()
        shown.expected.append("status of 422")
        await expect(shown.page.get_by_label("More")).to_have_value("{")
        await shown.page.get_by_label("More").fill("{}")
        await shown.page.get_by_role("button", name="Answer", exact=True).click()
        await expect(shown.page.get_by_text("Size 44")).to_be_visible()


async def test_an_answer_that_never_arrives_stays_in_the_form(browser: Browser, tmp_path: Path) -> None:
    async with waiting(browser, tmp_path) as (_, shown, _):
        page = shown.page
        await page.clock.install()
        await page.route("**/native/**", lambda route: route.abort())
        await answer(page, "44")
        for _ in range(400):  # the page tries again every second, for two minutes
            await page.clock.run_for(1000)
            if await page.get_by_role("alert").count():
                break
        await expect(page.get_by_role("alert")).to_have_text("The server cannot be reached.")
        await page.unroute("**/native/**")
        await expect(page.get_by_label("Size")).to_have_value("44")
        await page.get_by_role("button", name="Answer", exact=True).click()
        await expect(page.get_by_text("Size 44")).to_be_visible()
        shown.expected.append("net::ERR_FAILED")


async def test_an_answer_after_the_time_is_not_lost_silently(browser: Browser, tmp_path: Path) -> None:
    async with waiting(browser, tmp_path, timeout_s=HOUR_S) as (server, shown, _):
        page = shown.page
        await page.route("**/sessions?*", lambda _: None)  # the list of conversations does not tell it first
        async with page.expect_response("**/runs?*"):
            await page.evaluate("dispatchEvent(new Event('focus'))")  # an answer that is under way counts no more
        await end_pauses(server)
        await answer(page, "44")
        await expect(shown.page.get_by_role("alert")).to_have_text("Your answer came too late: Size: 44")
        await shown.page.unroute("**/sessions?*")
        shown.expected.append("status of 409")
        await expect_the_same_after_a_reload(shown.page, "A shirt", "Which size?", "Size: 42", "Size 42")


async def test_a_cancelled_form_says_why_also_after_a_reload(browser: Browser, tmp_path: Path) -> None:
    async with waiting(browser, tmp_path, timeout_s=1, answer="cancel") as (server, shown, _):
        await end_pauses(server)
        for _ in range(2):
            await expect(shown.page.get_by_role("alert")).to_have_text(CANCELLED)
            await expect_messages(shown.page, "A shirt", "Which size?")
            await expect(shown.page.locator(".pause")).to_have_count(0)
            await shown.page.reload()
        await ask(shown.page, "Again")
        await expect(shown.page.locator(".pause")).to_be_visible()


async def test_an_answer_that_is_edited_opens_its_form_again(browser: Browser, tmp_path: Path) -> None:
    async with start_app(tmp_path, [*REPLIES, *REPLIES]) as server, visit(browser, server.url, server.key) as shown:
        page, last = shown.page, shown.page.locator(".message.assistant").last
        await open_agent(server, page, APPROVING)
        await ask(page, "Pay")
        for _ in range(2):
            await expect(page.get_by_placeholder("Answer the form above")).to_be_disabled()
            await expect(page.locator("[data-node='Message:0']")).to_have_attribute("data-status", "waiting")
            await page.locator(".pause select").select_option("approve")
            await page.get_by_role("button", name="Answer", exact=True).click()
            await expect(last).to_contain_text("All is paid.")
            await expect(page.locator(".message.user")).to_have_text(["Pay", 'Agent "Helper": approve'])
            if server.model.replies:
                await page.get_by_role("button", name="Edit").last.click()
                await page.get_by_role("textbox", name="Edit").fill("refuse")
                await page.get_by_role("button", name="Send again").click()
                await expect(page.get_by_role("alert")).to_contain_text("the conversation waits for a form: refuse")


async def test_the_steps_of_a_turn_differ(browser: Browser, tmp_path: Path) -> None:
    async with waiting(browser, tmp_path) as (_, shown, _):
        await answer(shown.page, "44")
        await expect(shown.page.get_by_text("Size 44")).to_be_visible()
        page, facts = shown.page, shown.page.locator(".facts")
        for _ in range(2):
            await expect(facts.locator("summary")).to_contain_text(["1 node ", "3 nodes "])
            await facts.last.locator("summary").click()
            await expect(facts.last.locator(".step-title")).to_have_text(["begin", "UserFillUp:0", "Message:0"])
            await expect(facts.last.locator("summary")).to_contain_text("3 nodes ")
            await page.reload()
        await page.get_by_role("tab", name="Run").click()
        await expect(page.locator(".timeline .words")).to_have_text(
            ["begin", "UserFillUp:0 → 44", "Message:0 → Size 44"]
        )
        await page.get_by_role("button", name="Values after UserFillUp:0").click()
        await expect(page.locator(".step-name")).to_contain_text("After UserFillUp:0")
        await expect(page.locator(".variable").filter(has_text="UserFillUp:0 · size")).to_contain_text("44")
        await page.get_by_role("slider").press("End")
        await expect(page.locator(".step-name")).to_contain_text("End of the turn")


async def test_two_tabs_continue_a_run(browser: Browser, tmp_path: Path) -> None:
    async with waiting(browser, tmp_path) as (server, shown, agent):
        async with native(server, agent) as client:
            (run,) = (await client.get("/runs")).json()["runs"]
            steps = (await client.get(f"/sessions/{run['session_id']}/history")).json()["moments"]
            made = (await client.post(f"/runs/{run['id']}/fork", json={"checkpoint": steps[1]["checkpoint"]})).json()
            assert made["status"] == "interrupted"
            await shown.page.goto(f"{server.url}/#/{agent}/{made['session_id']}")
            await expect(shown.page.get_by_role("button", name="Continue")).to_be_visible()
            await client.post(f"/runs/{made['id']}/continue")
        await shown.page.get_by_role("button", name="Continue").click()
        await expect(shown.page.locator(".pause")).to_be_visible()
        shown.expected.append("status of 409")


async def test_a_form_is_given_up(browser: Browser, tmp_path: Path) -> None:
    async with waiting(browser, tmp_path) as (_, shown, _):
        await shown.page.get_by_role("button", name="Give up this form").click()
        await expect(shown.page.locator(".turn-note")).to_contain_text("Stopped")
        await expect_the_same_after_a_reload(shown.page, "A shirt", "Which size?")
        await expect(shown.page.get_by_role("button", name="Continue")).to_have_count(0)
        await ask(shown.page, "Again")
        await expect(shown.page.locator(".pause")).to_be_visible()
