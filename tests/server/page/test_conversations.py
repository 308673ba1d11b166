"""The list of conversations in a real Chromium: names, pins, states, search, deletion, and what is older."""

import asyncio
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page, Route, expect

from ragflow_lg.server.database.session_repository import SessionRepository
from ragflow_lg.server.database.tables import SessionRow
from tests.fakes.browsers import needs_chromium
from tests.fakes.services import Reply
from tests.server.http.app_server import ECHO, MODEL, AppServer, start_app
from tests.server.http.native.native_client import native
from tests.server.page.visits import OF_TALK, ask, choose_action, open_agent, visit

pytestmark = needs_chromium

DAY_MS = 86_400_000
SEND_AT_ONCE = """async (text) => {
  const isThere = new Promise((show) => addEventListener("hashchange", show, { once: true }));
  document.querySelector(".sessions button.primary").click();
  await isThere;
  for (let at = 0; at < 20; at += 1) await Promise.resolve(); // it is drawn, but nothing has been painted yet
  const box = document.querySelector(".composer textarea");
  box.value = text;
  box.dispatchEvent(new Event("input", { bubbles: true }));
  for (let at = 0; at < 20; at += 1) await Promise.resolve();
  box.form.requestSubmit();
}"""
"""Begins a conversation and sends its first message as fast as a program."""
LEAVE_FOREIGN = """() => addEventListener("pagehide", () =>
  sessionStorage.setItem("ragflow-lg-unsent", '{"owner": 1, "texts": [null]}'))"""


async def groups(page: Page) -> dict[str, list[str]]:
    """Return the names of the listed conversations by group."""
    return await page.evaluate(
        "() => Object.fromEntries([...document.querySelectorAll('.sessions section')].map((group) =>"
        " [group.querySelector('h2').textContent,"
        " [...group.querySelectorAll('.talk-name')].map((name) => name.textContent)]))"
    )


async def change(server: AppServer, session: str, **values: Any) -> None:
    await SessionRepository(server.app_state.database, server.tenant).set(session, **values)


async def test_conversations_are_renamed_pinned_found_and_deleted(browser: Browser, tmp_path: Path) -> None:
    replies = [
        Reply(text="It left **Hamburg**."),
        Reply(text="Until Friday."),
        Reply(error="Broken."),
        Reply(hangs=True),
    ]
    async with start_app(tmp_path, replies) as server, visit(browser, server.url, server.key) as shown:
        page = shown.page
        agent = await open_agent(server, page, MODEL)
        now = server.app_state.now_ms()
        client = native(server, agent)
        for age, question in enumerate(("Where is my **parcel**?", "# Opening hours", "A refund")):
            session = (await client.post("/runs", json={"query": question})).json()["session_id"]
            await change(server, session, update_ms=now - age * DAY_MS)
        await page.reload()
        await ask(page, "Slow")
        rows, name = page.locator(".sessions li"), page.get_by_role("textbox", name="Name of the conversation")
        await expect(rows).to_have_count(4)
        await expect(rows.filter(has_text="Slow").get_by_role("img", name="running")).to_be_visible()
        await expect(rows.filter(has_text="A refund").get_by_role("img", name="failed")).to_be_visible()
        assert list((await groups(page)).items()) == [
            ("Today", ["Slow", "Where is my parcel?"]),
            ("Yesterday", ["Opening hours"]),
            ("Earlier", ["A refund"]),
        ]

        await choose_action(page, "Delete", OF_TALK)
        await page.get_by_role("dialog").get_by_role("button", name="Stop and delete").click()
        await expect(rows).to_have_count(3)
        await expect(page.get_by_role("alert")).to_have_count(0)

        await page.get_by_role("link", name="Where is my parcel?").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Where is my parcel?")
        await choose_action(page, "Rename", OF_TALK)
        await expect(name).to_be_focused()
        await page.keyboard.type("Parcel <b>12</b>")  # over the old name, which is selected
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", level=1)).to_have_text("Parcel <b>12</b>")
        await expect(page.locator(".sessions [aria-current='page']")).to_have_text("Parcel <b>12</b>")
        await expect(page.get_by_role("button", name=OF_TALK)).to_be_focused()
        await choose_action(page, "Pin", OF_TALK)
        await expect(page.get_by_role("heading", name="Pinned")).to_be_visible()
        assert (await groups(page))["Pinned"] == ["Parcel <b>12</b>"]

        other = await browser.new_page()
        await other.goto(f"{server.url}/#key={server.key}")
        await other.goto(page.url)
        await expect(other.get_by_role("heading", level=1)).to_have_text("Parcel <b>12</b>")
        search = page.get_by_role("searchbox", name="Search conversations")
        await search.fill("hamburg")
        await expect(page.locator(".excerpt")).to_have_text("It left Hamburg.")
        await expect(page.locator(".sessions mark")).to_have_text("Hamburg")
        await expect(rows).to_have_count(1)
        await search.fill("open")
        await expect(page.locator(".sessions mark")).to_have_text("Open")
        await search.fill("")

        await choose_action(page, "Rename", OF_TALK)
        await name.fill("")
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Where is my parcel?")
        await choose_action(other, "Rename", OF_TALK)
        await choose_action(page, "Delete", OF_TALK)
        await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("New conversation")
        await expect(rows).to_have_count(2)
        await expect(page.get_by_role("textbox", name="Your message")).to_be_focused()
        await other.evaluate("dispatchEvent(new Event('focus'))")
        await expect(other.locator(".sessions li")).to_have_count(2)
        await expect(other.get_by_role("alert")).to_have_text(
            "The conversation was deleted elsewhere. This is a new one."
        )
        await expect(other.get_by_role("heading", level=1)).to_have_text("New conversation")
        await expect(other.get_by_role("dialog")).to_have_count(0)
        await page.go_back()
        gone = page.get_by_role("alert").filter(has_text="This conversation is not here")
        await expect(gone).to_be_visible()
        await expect(page.get_by_role("textbox", name="Your message")).to_have_count(0)
        await gone.get_by_role("button", name="New conversation").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("New conversation")

        await page.goto(f"{server.url}/#/{'0' * 32}")
        await expect(page.get_by_role("alert")).to_contain_text("Agent not found")
        await expect(page.get_by_role("alert")).to_have_count(1)
        await expect(page.get_by_role("textbox")).to_have_count(0)
        await page.get_by_role("link", name="All agents").click()
        await expect(page.get_by_role("heading", name="Agents")).to_be_visible()
        shown.expected += ["status of 404", "status of 410"]  # also of the run that was followed when it was deleted


async def test_rows_have_a_menu_for_the_keyboard_which_is_not_cut_and_older_ones_follow(
    browser: Browser, tmp_path: Path
) -> None:
    async with start_app(tmp_path) as server, visit(browser, server.url, server.key) as shown:
        page = shown.page
        agent = await server.agent(MODEL, "Helper")
        version, now = (await server.agent_row(agent)).version_id, server.app_state.now_ms()
        fields: Any = {"tenant": server.tenant, "agent_id": agent, "version_id": version}
        sessions = SessionRepository(server.app_state.database, server.tenant)
        for at in range(230):
            name, time = f"Talk {at}", now - at * 1000
            await sessions.add(SessionRow(id=f"{at:032x}", name=name, create_ms=time, update_ms=time, **fields))
        await page.goto(f"{server.url}/#/{agent}")
        rows = page.locator(".sessions li")
        await expect(rows).to_have_count(100)
        last = page.get_by_role("link", name="Talk 99")
        await last.focus()
        await page.keyboard.press("Tab")
        await expect(page.get_by_role("button", name="Menu: Talk 99")).to_be_focused()
        await expect(rows).to_have_count(200)  # the end of the list came in sight
        await expect(page.get_by_role("button", name="Menu: Talk 99")).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("menuitem", name="Rename")).to_be_focused()
        is_whole = await page.evaluate(
            "() => [...document.querySelectorAll('.menu-items button')].every((item) => {"
            " const { left, right, top, bottom } = item.getBoundingClientRect();"
            " return item.contains(document.elementFromPoint((left + right) / 2, top + 2))"
            " && item.contains(document.elementFromPoint((left + right) / 2, bottom - 2)) })"
        )
        assert is_whole
        await page.keyboard.press("ArrowUp")
        await expect(page.get_by_role("menuitem", name="Delete")).to_be_focused()
        await page.keyboard.press("Enter")
        await page.get_by_role("dialog").get_by_role("button", name="Delete").press("Enter")
        await expect(last).to_have_count(0)
        await expect(page.get_by_role("button", name="New conversation")).to_be_focused()
        await expect(page.get_by_role("dialog")).to_have_count(0)
        await page.get_by_role("button", name="More").click()
        await expect(rows).to_have_count(229)
        await expect(page.get_by_role("button", name="More")).to_have_count(0)

        await page.goto(f"{server.url}/#/{agent}/{229:032x}")
        await page.reload()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Talk 229")  # which is not listed yet
        await page.get_by_role("button", name="Menu: Talk 0", exact=True).click()
        await page.get_by_role("menuitem", name="Pin").click()
        await expect(page.get_by_role("heading", name="Pinned")).to_be_visible()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Talk 229")


async def test_what_a_reader_does_stays_with_its_conversation(browser: Browser, tmp_path: Path) -> None:
    async with start_app(tmp_path) as server, visit(browser, server.url, server.key) as shown:
        page = shown.page
        agent = await server.agent(ECHO, "Helper")
        client = native(server, agent)
        ids = [(await client.post("/runs", json={"query": name})).json()["session_id"] for name in ("Alpha", "Beta")]
        head, upload, deletion = page.get_by_role("heading", level=1), asyncio.Event(), asyncio.Event()

        async def hold(route: Route) -> None:
            await (deletion if route.request.method == "DELETE" else upload).wait()
            await route.continue_()

        await page.goto(f"{server.url}/#/{agent}/{ids[0]}")
        await page.reload()
        await expect(head).to_have_text("Alpha")
        await page.get_by_role("link", name="Beta").click()
        box = page.get_by_role("textbox", name="Your message")
        await box.fill("Half\na\nquestion")
        high = await box.evaluate("(box) => box.clientHeight")
        await page.reload()
        assert await page.evaluate("sessionStorage.getItem('ragflow-lg-unsent')") is None  # for copies of the tab
        for action in ("Rename", "Share …", "Delete"):
            await choose_action(page, action, OF_TALK)
            await expect(page.get_by_role("dialog")).to_be_visible()
            await page.go_back()  # which a dialog does not prevent
            await expect(head).to_have_text("Alpha")
            await expect(page.get_by_role("dialog")).to_have_count(0)
            await expect(box).to_have_value("")
            await page.go_forward()
            await expect(head).to_have_text("Beta")
            await expect(box).to_have_value("Half\na\nquestion")
        await page.go_back()
        await page.get_by_role("button", name="Whole width").click()
        await page.go_forward()
        await page.get_by_role("button", name="Beside the conversation").click()
        await expect(head).to_have_text("Beta")
        await expect(box).to_have_js_property("clientHeight", high)
        await page.locator(".sessions li").filter(has_text="Beta").hover()
        await choose_action(page, "Share …", "Menu: Beta")
        await expect(page.get_by_role("dialog", name="Share this conversation")).to_be_visible()
        await page.keyboard.press("Escape")

        await page.route("**/upload*", hold)
        await page.get_by_label("Attach files").set_input_files(
            {"name": "a.txt", "mimeType": "text/plain", "buffer": b"a"}
        )
        await ask(page, "For Beta")
        await page.get_by_role("link", name="Alpha").click()
        await expect(head).to_have_text("Alpha")
        upload.set()
        await expect(page.locator(".sessions li").first).to_contain_text("Beta")  # it was used last now
        await expect(page.locator(".message.user")).to_have_text(["Alpha"])
        await page.get_by_role("link", name="Beta").click()
        await expect(page.locator(".message.user").last).to_contain_text("For Beta")
        await page.get_by_role("link", name="Alpha").click()
        await expect(page.locator(".message.user")).to_have_text(["Alpha"])

        await page.evaluate(SEND_AT_ONCE, "As soon as it is open")
        await expect(page.locator(".message.user")).to_have_text(["As soon as it is open"])
        await page.get_by_role("link", name="Alpha").click()
        await expect(page.locator(".message.user")).to_have_text(["Alpha"])

        await page.route("**/feedback", lambda route: route.abort())
        good, bad = (page.get_by_role("button", name=f"{name} answer") for name in ("Good", "Bad"))
        await good.click()
        await bad.click()
        await expect(page.locator(".answer-tools").get_by_role("alert")).to_be_visible()
        await expect(good).to_have_attribute("aria-pressed", "false")
        await expect(bad).to_have_attribute("aria-pressed", "false")

        begun, deleted, answer = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def hold_run(route: Route) -> None:
            await begun.wait()
            await route.continue_()

        async def hold_answer(route: Route) -> None:
            answered = await route.fetch()
            deleted.set()
            await answer.wait()
            await route.fulfill(response=answered)

        new = page.locator(".sessions").get_by_role("button", name="New conversation")
        look = "dispatchEvent(new Event('focus'))"
        await page.route("**/runs?*", hold_run)
        await new.click()
        await expect(head).to_have_text("New conversation")
        await ask(page, "Gamma")
        await box.fill("And then?")  # while nobody knows the conversation's id
        begun.set()
        await expect(page.locator(".message.assistant")).to_contain_text("Gamma")
        await expect(head).to_have_text("Gamma")
        await expect(box).to_have_value("And then?")
        await expect(page.locator(".sessions [aria-current='page']")).to_have_text("Gamma")
        await client.delete(f"/sessions/{page.url.rpartition('/')[2]}")
        await page.evaluate(look)
        await expect(page.get_by_role("alert")).to_contain_text("deleted elsewhere")
        await expect(box).to_have_value("And then?")

        for key, title in ((await server.new_key("other"), "ragflow-lg"), (server.key, "Helper · ragflow-lg")):
            await choose_action(page, "Sign out", "Menu")
            await page.get_by_label("API key").fill(key)
            await page.get_by_role("button", name="Sign in").click()
            await expect(page.get_by_role("alert").or_(box).first).to_be_visible()
            await expect(page).to_have_title(title)
        for _ in range(2):
            await expect(box).to_have_value("")
            await page.evaluate(LEAVE_FOREIGN)
            await page.reload()

        await page.get_by_role("link", name="Beta").click()
        await expect(head).to_have_text("Beta")
        async with page.expect_response("**/sessions?*"):
            await page.evaluate(look)
        await page.route("**/sessions/*", hold_answer)
        await choose_action(page, "Delete", OF_TALK)
        await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await deleted.wait()
        for _ in range(2):
            async with page.expect_response("**/sessions?*"):
                await page.evaluate(look)
        await expect(page.get_by_role("link", name="Beta")).to_have_count(0)
        answer.set()
        await expect(head).to_have_text("New conversation")
        await expect(page.get_by_role("alert")).to_have_count(0)  # nobody else has deleted it
        await page.unroute("**/sessions/*")

        await page.get_by_role("link", name="Alpha").click()
        await expect(head).to_have_text("Alpha")
        await page.route("**/sessions/*", hold)
        await choose_action(page, "Delete", OF_TALK)
        await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await page.evaluate("location.hash = '#/'")
        await expect(page.get_by_role("heading", name="Agents")).to_be_visible()
        async with page.expect_response("**/sessions/*"):
            deletion.set()
        await expect(page.get_by_role("heading", name="Agents")).to_be_visible()
        assert page.url.endswith("#/")
        shown.expected += ["status of 404", "net::ERR_FAILED"]
