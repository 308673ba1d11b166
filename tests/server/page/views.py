"""The views of the page, and how each of them is opened."""

import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec import Struct
from playwright.async_api import Page, expect

from tests.server.http.app_server import AppServer, canvas
from tests.server.page.view_checks import USUAL
from tests.server.page.visits import Visit, ask, choose_action

FINDINGS = canvas(("begin", "Begin", {}, ["Search:0"]), ("Search:0", "Retrieval", {"query": "x"}, []))
ENTER = """(key) => {
  const isOther = sessionStorage.getItem("ragflow-lg-key") !== key;
  sessionStorage.setItem("ragflow-lg-key", key);
  return isOther;
}"""


class House(Struct):
    """Two servers with agents and conversations, and one page for the views of both."""

    server: AppServer
    own: AppServer
    shown: Visit
    folder: Path
    desk: str
    trip: str
    form: str
    support: str
    session: str
    failed: str
    waiting: str

    @property
    def page(self) -> Page:
        return self.shown.page

    async def go(self, place: str = "", *, server: AppServer | None = None, key: str | None = None) -> Page:
        """Show a place of the page as if it had just been opened."""
        server, page = server or self.server, self.page
        await page.set_viewport_size({"width": USUAL[0], "height": USUAL[1]})
        await page.goto("about:blank")
        await page.goto(f"{server.url}/#/{place}")
        if await page.evaluate(ENTER, server.key if key is None else key):
            await page.reload()
        return page

    async def talk(self, session: str = "", agent: str = "") -> Page:
        page = await self.go(f"{agent or self.desk}/{session or self.session}")
        await expect(page.locator(".picture svg")).to_be_visible()
        await expect(page.locator(".message.assistant").last).to_be_visible()
        return page


async def agents_empty(house: House) -> None:
    page = await house.go(key=await house.server.new_key("other"))
    await expect(page.get_by_text("Drop a canvas that RAGFlow exported")).to_be_visible()


async def agents(house: House) -> None:
    await expect((await house.go()).locator(".card")).to_have_count(4)


async def sign_in(house: House) -> None:
    await expect((await house.go(key="")).locator(".sign-in")).to_be_visible()


async def sign_in_refused(house: House) -> None:
    page = await house.go(key="ragflow-expired")
    await expect(page.get_by_role("alert")).to_be_visible()


async def add_dialog(house: House) -> None:
    page = await house.go()
    file = house.folder / "search.json"
    file.write_text(json.dumps(FINDINGS))
    await page.set_input_files("input[type=file]", file)
    await expect(page.locator(".findings li")).not_to_have_count(0)


async def opening(house: House) -> None:
    page = await house.go(house.form)
    await expect(page.locator(".ready")).to_be_visible()
    await expect(page.locator(".picture svg")).to_be_visible()


async def opening_with_a_form(house: House) -> None:
    page = await house.go(house.trip)
    await expect(page.locator(".begin")).to_be_visible()


async def opening_that_lacks_something(house: House) -> None:
    page = await house.go(house.support, server=house.own)
    await expect(page.locator(".need-row > button")).to_have_count(2)
    for button in await page.locator(".need-row > button").all():
        await button.click()
    await expect(page.locator(".mend")).to_have_count(2)
    await expect(page.locator(".needs > header")).to_be_in_viewport()  # what is unfolded does not move the reader


async def conversation(house: House) -> None:
    page = await house.talk()
    await page.locator(".facts > summary").click()
    await expect(page.locator(".thinking")).to_be_visible()


async def running(house: House) -> None:
    page = await house.go(house.desk)
    await ask(page, "故事")
    await expect(page.locator(".message.assistant")).to_contain_text("从前")


async def stopped(house: House) -> None:
    await running(house)
    await house.page.get_by_role("button", name="Stop").click()
    await expect(house.page.locator(".turn-note")).to_be_visible()


async def failed(house: House) -> None:
    page = await house.talk(house.failed)
    await expect(page.locator(".error-card")).to_be_visible()
    await expect(page.locator(".drawer")).to_be_visible()


async def waiting(house: House) -> None:
    page = await house.talk(house.waiting, house.form)
    await expect(page.get_by_text("Without an answer, the turn is cancelled in 2 hours.")).to_be_visible()


async def drawer(house: House) -> None:
    page = await house.talk()
    await page.locator("[data-node='LLM:0']").click()
    await expect(page.locator(".drawer .prompts")).to_be_visible()


async def draft(house: House) -> None:
    await drawer(house)
    await house.page.locator(".node-actions").get_by_role("button", name="Draft").click()
    await expect(house.page.get_by_role("region", name="Draft")).to_be_visible()


async def alone(house: House) -> None:
    await drawer(house)
    await house.page.locator(".node-actions").get_by_role("button", name="Run alone").click()
    await expect(house.page.get_by_role("region", name="Run alone")).to_be_visible()


async def source(house: House) -> None:
    page = await house.talk()
    await page.locator(".sources button, [data-cite]").first.click()
    await expect(page.get_by_role("complementary")).to_be_visible()


async def run_tab(house: House) -> None:
    page = await house.talk()
    await page.get_by_role("tab", name="Run").click()
    await expect(page.locator(".timeline .visit-rows > li")).not_to_have_count(0)


async def values(house: House) -> None:
    page = await house.talk()
    await page.get_by_role("tab", name="Values").click()
    await page.get_by_role("button", name="Edit: 回复").first.click()
    await page.get_by_text("The whole state").click()


async def compare(house: House) -> None:
    page = await house.talk()
    await choose_action(page, "Compare")
    await expect(page.locator(".comparison .side-answer")).to_have_count(2)
    await expect(page.locator(".side-answer .piece [data-cite]").first).to_have_text("1")


async def use_it(house: House) -> None:
    page = await house.talk()
    await choose_action(page, "Use it from programs")
    await expect(page.get_by_role("region", name="Use it from programs")).to_be_visible()


async def menu(house: House) -> None:
    page = await house.talk()
    await page.locator(".panel-head").get_by_role("button", name="Menu of the run").click()


async def open_talk_menu(house: House, icon: str) -> Page:
    page = await house.talk()
    await page.locator(".sessions li", has_text="1234567890").locator(".menu > button").click()
    await page.locator(f".menu-items button:has([data-icon='{icon}'])").click()
    await expect(page.get_by_role("dialog")).to_be_visible()
    return page


async def rename(house: House) -> None:
    await open_talk_menu(house, "pencil")


async def delete(house: House) -> None:
    await open_talk_menu(house, "trash-2")


async def share(house: House) -> None:
    page = await house.talk()
    await page.locator(".talk-head .menu > button").click()
    await page.locator(".menu-items button:has([data-icon='share-2'])").click()
    await page.get_by_role("button", name=re.compile("Create (a new )?link")).click()
    await expect(page.get_by_label("Link", exact=True)).to_be_visible()


async def rate(house: House) -> None:
    page = await house.talk()
    await page.get_by_role("button", name="Good answer").click()
    await expect(page.locator(".answer-tools form")).to_be_visible()


async def shared(house: House) -> None:
    server = house.server
    made = await server.post(f"{server.url}/native/v1/agents/{house.desk}/sessions/{house.session}/share")
    await house.page.goto(f"{server.url}{made['url']}")
    await expect(house.page.locator(".message.assistant")).to_be_visible()
    await house.page.locator(".code").last.get_by_role("button", name="Draw").click()
    await expect(house.page.locator(".diagram")).to_be_visible()


async def shared_gone(house: House) -> None:
    await house.page.goto(f"{house.server.url}/shared/share-none")
    await expect(house.page.locator(".gone")).to_be_visible()


async def run_file(house: House) -> None:
    server, file = house.server, house.folder / "run.html"
    path = f"{server.url}/native/v1/agents/{house.desk}/sessions/{house.session}/run-file"
    file.write_bytes((await server.client.get(path)).raise_for_status().content)
    await house.page.goto(file.as_uri())
    house.shown.expected.append(file.as_uri())  # it is on no server
    await house.page.locator("[data-node='LLM:0']").click()
    await expect(house.page.locator(".drawer")).to_be_visible()


async def embedded(house: House) -> None:
    key = await house.server.new_key(kind="beta", agents=[house.desk])
    page = house.page
    await page.set_viewport_size({"width": 400, "height": 600})
    await page.goto("about:blank")
    await page.goto(f"{house.server.url}/chat/{house.desk}#auth={key}")
    await page.locator(".composer textarea").fill("我的包裹呢？")
    await page.keyboard.press("Enter")
    await expect(page.locator(".message.assistant")).to_have_attribute("data-status", "succeeded")


async def reference(house: House) -> None:
    await house.page.goto(f"{house.server.url}/docs")
    await house.page.get_by_role("searchbox").fill("Answer a run")
    await expect(house.page.locator(".operation")).to_have_count(1)
    await house.page.get_by_text("POST /native/v1/agents/{agent_id}/runs/{run_id}/resume").click()
    await expect(house.page.locator(".operation")).to_contain_text("422")


async def settings(house: House) -> None:
    page = await house.go("settings", server=house.own)
    await expect(page.locator(".settings details")).to_be_visible()
    await page.get_by_role("button", name="Choose a model").click()
    await page.get_by_label("API key").fill("sk-none")
    await page.get_by_label("Address (optional)").fill("http://127.0.0.1:9/v1")
    await page.get_by_role("button", name="Try it").click()
    await expect(page.locator(".outcome")).to_contain_text("cannot be reached")


View = Callable[[House], Awaitable[None]]
VIEWS: list[View] = [
    *(agents_empty, agents, sign_in, sign_in_refused, add_dialog, opening, opening_with_a_form),
    *(opening_that_lacks_something, conversation, running, stopped, failed, waiting, settings),
    *(rename, delete, share, rate, shared, shared_gone, run_file, embedded),
]
PANEL_VIEWS: list[View] = [drawer, draft, alone, source, run_tab, values, compare, use_it, menu]
