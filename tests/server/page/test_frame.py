"""The frame of the page: its theme, its columns and drawers, its landmarks, and the list of agents."""

import asyncio
import json
import re
from pathlib import Path

from playwright.async_api import Browser, Route, expect

from ragflow_lg.server.agents.canvas_file_agents import CanvasFiles
from tests.fakes.browsers import needs_chromium
from tests.server.http.app_server import MODEL, start_app
from tests.server.page.visits import ask, choose_action, open_agent, visit

pytestmark = needs_chromium

DROP = """(text) => {
    const data = new DataTransfer();
    data.items.add(new File([text], "guide.json", {type: "application/json"}));
    const drop = new DragEvent("drop", {dataTransfer: data, bubbles: true, cancelable: true});
    document.querySelector("header").dispatchEvent(drop);
}"""


async def test_the_reader_chooses_theme_and_columns_which_the_browser_keeps(browser: Browser, tmp_path: Path) -> None:
    async with start_app(tmp_path) as server, visit(browser, server.url, server.key) as shown:
        page = shown.page
        await page.emulate_media(color_scheme="light")
        await open_agent(server, page, MODEL)
        await expect(page).to_have_title("Helper · ragflow-lg")
        await expect(page.get_by_role("main").get_by_role("heading", level=1, name="New conversation")).to_be_visible()
        light = await page.locator(".picture svg").inner_html()
        await page.get_by_role("button", name="Theme: as the system").click()
        await page.get_by_role("button", name="Theme: light").click()
        await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        await page.wait_for_function("(light) => document.querySelector('.picture svg').innerHTML !== light", arg=light)

        divider, side = page.get_by_role("separator"), page.locator(".side")
        usual = await side.evaluate("(side) => side.clientWidth")
        await divider.press("ArrowLeft")
        await divider.press("ArrowLeft")
        assert await side.evaluate("(side) => side.clientWidth") > usual
        box = await divider.bounding_box()
        assert box is not None
        await page.mouse.move(box["x"] + 4, 400)
        await page.mouse.down()
        await page.mouse.move(700, 400)
        await page.mouse.up()
        wide = await side.evaluate("(side) => side.clientWidth")
        assert abs(wide - 700) < 20
        await page.reload()
        await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        await expect(side).to_be_visible()
        assert await side.evaluate("(side) => side.clientWidth") == wide
        await divider.dblclick()
        assert await side.evaluate("(side) => side.clientWidth") == usual
        await page.get_by_role("button", name="Run panel").click()
        await expect(side).to_be_hidden()
        await page.get_by_role("button", name="Run panel").click()
        await page.get_by_role("button", name="Whole width").click()
        await expect(page.get_by_role("textbox", name="Your message")).to_be_hidden()
        await page.get_by_role("button", name="Beside the conversation").click()
        await expect(page.get_by_role("textbox", name="Your message")).to_be_visible()


async def test_on_a_phone_send_is_seen_and_the_parts_are_drawers(browser: Browser, tmp_path: Path) -> None:
    async with start_app(tmp_path) as server, visit(browser, server.url, server.key) as shown:
        page = shown.page
        await page.set_viewport_size({"width": 360, "height": 640})
        await page.goto(f"{server.url}/#/{await server.agent(MODEL, 'Other')}")
        await page.goto(f"{server.url}/#/{await server.agent(MODEL, 'Helper')}")
        send = page.get_by_role("button", name=re.compile("^Send$"))
        await expect(send).to_be_in_viewport(ratio=1)
        for name, part in (("Conversations", ".sessions"), ("Run panel", ".side")):
            await expect(page.locator(part)).to_be_hidden()
            switch = page.locator("header").get_by_role("button", name=name)
            await switch.click()
            await expect(switch).to_have_attribute("aria-expanded", "true")
            await expect(page.locator(part)).to_be_in_viewport()
            await page.keyboard.press("Escape")
            await expect(page.locator(part)).to_be_hidden()
        await expect(send).to_be_in_viewport(ratio=1)
        await ask(page, "Hello")
        await expect(page.get_by_role("button", name="Good answer")).to_be_visible()
        await page.get_by_role("button", name="Run panel").click()
        tabs = page.get_by_role("tablist", name="Run")
        assert await tabs.evaluate("tabs => tabs.scrollWidth <= tabs.clientWidth")
        await page.go_back()  # which closes the drawer
        await expect(page.locator(".side")).to_be_hidden()
        await expect(page.locator(".message.user")).to_have_count(1)
        await page.get_by_role("button", name="Conversations").click()
        await page.get_by_role("button", name="New conversation").click()  # in place of the drawer
        await expect(page.locator(".message.user")).to_have_count(0)
        await expect(page.locator(".sessions")).to_be_hidden()
        await page.go_back()
        await expect(page.locator(".message.user")).to_have_count(1)
        await page.go_back()
        await expect(page.locator(".message.user")).to_have_count(0)
        await page.go_back()
        await expect(page.locator(".crumbs b")).to_have_text("Other")
        await expect(page.locator(".side")).to_be_hidden()
        await choose_action(page, "Theme: as the system", "Menu")  # the head has no room for it
        await expect(page.locator("html")).to_have_attribute("data-theme", "light")


async def test_the_own_agents_come_first_and_a_file_is_dropped_anywhere(browser: Browser, tmp_path: Path) -> None:
    folder = tmp_path / "examples"
    folder.mkdir()
    about = {"title": {"en": "A guide"}, "description": {"en": "Guides people."}, "dsl": MODEL}
    (folder / "travel_guide.json").write_text(json.dumps(about))
    (tmp_path / "my_desk.json").write_text(json.dumps(MODEL))
    async with start_app(tmp_path) as server, visit(browser, server.url, server.key) as shown:
        page = shown.page
        await expect(page.get_by_text("Drop a canvas that RAGFlow exported")).to_be_visible()
        await CanvasFiles(server.app_state, "tenant", [tmp_path / "my_desk.json", folder]).store()
        await page.reload()
        await expect(page.locator(".card b")).to_have_text(["My desk", "Travel guide"])
        await expect(page.locator("h2")).to_have_text(["Yours", "Examples"])
        await expect(page.locator(".card").last).to_contain_text("Guides people.")
        await expect(page.locator(".card .state").first).to_have_text("1 missing")
        await expect(page.locator(".card .sketch").last.locator("rect")).to_have_count(len(MODEL["components"]))
        await page.evaluate(DROP, json.dumps(about))
        dialog = page.get_by_role("dialog", name="Add an agent")
        await expect(dialog.get_by_label("Title")).to_have_value("A guide")
        await page.keyboard.press("Escape")
        await expect(dialog).to_have_count(0)
        await page.evaluate(DROP, json.dumps(about))
        await dialog.get_by_role("button", name="Add the agent").click()
        await expect(page).to_have_title("A guide · ragflow-lg")

        await page.wait_for_load_state("networkidle")  # a late answer would say that the server can be reached
        await page.route("**/native/v1/agents?*", lambda route: route.abort())
        await page.get_by_role("link", name="Agents").click()
        await expect(page.get_by_text("The server cannot be reached. Trying again …")).to_be_visible()
        await page.unroute("**/native/v1/agents?*")
        await expect(page.locator(".card")).to_have_count(3)
        shown.expected.append("net::ERR_FAILED")

        goes_on = asyncio.Event()

        async def delay(route: Route) -> None:
            await goes_on.wait()
            await route.continue_()

        for name in ("begin", "needs"):
            await page.route(f"**/{name}", delay)
        await page.get_by_role("button", name="Travel guide").click()
        await expect(page).to_have_title("Travel guide · ragflow-lg")  # it is known from the list
        await expect(page.get_by_role("textbox", name="Your message")).to_be_focused()
        await expect(page.locator(".opening .ghost").first).to_be_visible()
        goes_on.set()
        await expect(page.locator(".opening .ghost")).to_have_count(0)
