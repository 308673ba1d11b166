"""Every view of the page: with axe, in both themes and languages, on small screens, from the right, without motion."""

import copy
import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio
from msgspec import Struct
from playwright.async_api import Browser, Locator, Page, expect

from ragflow_lg.server.agents.canvas_file_agents import CanvasFiles
from ragflow_lg.server.settings.limits_section import PausesSection
from tests.fakes.browsers import needs_chromium
from tests.fakes.knowledge import FakeKnowledge, chunk
from tests.fakes.services import Reply
from tests.server.http.app_server import AppServer, canvas, start_app
from tests.server.http.native.test_native_settings_routes import SUPPORT
from tests.server.http.own_server import start_own_server
from tests.server.page.view_checks import USUAL, ask_view, check_view, find_latin
from tests.server.page.visits import Visit, ask, choose_action, visit

pytestmark = needs_chromium

LONG = "1234567890" * 30
"""A word that no line can hold."""
RICH = (
    r"""# 退款

您的包裹已于周二离开汉堡 [ID:61]，费用 $a^2 + b^2$[^a]。

| 商品 | 价格 |
| --- | ---: |
| 椅子 | 1,200.00 |

```python
def hello(): return "x"  # long long long long long long long long long long long long long long long long
```

$$\frac{1}{2}$$

- [x] 已付款
- [ ] 已退款

> 引用

مرحبا بكم.

![图](http://192.0.2.1/1.png)

```mermaid
graph LR
  包裹 --> 汉堡
```

[^a]: 说明。
"""
    + f"""
| 长 | 短 |
| --- | --- |
| {LONG} | 2 |

`{LONG}`
"""
)
SEARCH = {"dataset_ids": ["ds1"], "query": "sys.query"}
PROMPT = [{"role": "user", "content": "{sys.query} {Retrieval:0@formalized_content}"}]
DESK = canvas(
    ("begin", "Begin", {"prologue": "您好！"}, ["Retrieval:0"]),
    ("Retrieval:0", "Retrieval", SEARCH, ["LLM:0"]),
    ("LLM:0", "LLM", {"llm_id": "m", "cite": True, "prompts": PROMPT}, ["Message:0"]),
    ("Message:0", "Message", {"content": ["{LLM:0@content}"]}, []),
)
TITLES = {"begin": "顾客提问", "Retrieval:0": "手册", "LLM:0": "退款台", "UserFillUp:0": "尺码表", "Message:0": "回复"}
TRIP = canvas(
    (
        "begin",
        "Begin",
        {
            "prologue": "想去**哪里**？",
            "inputs": {
                "city": {"name": "城市", "type": "line"},
                "notes": {"name": "附件", "type": "file", "optional": True},
            },
        },
        ["Message:0"],
    ),
    ("Message:0", "Message", {"content": ["{begin@city}"]}, []),
)
SHIRT = canvas(
    ("begin", "Begin", {"prologue": "您好！"}, ["UserFillUp:0"]),
    (
        "UserFillUp:0",
        "UserFillUp",
        {"enable_tips": True, "tips": "什么尺码？", "inputs": {"size": {"name": "尺码", "type": "integer"}}},
        ["Message:0"],
    ),
    ("Message:0", "Message", {"content": ["{UserFillUp:0@size}"]}, []),
)
for dsl in (DESK, TRIP, SHIRT):
    dsl["graph"] = {
        "nodes": [
            {"id": id_, "data": {"name": TITLES[id_]}, "position": {"x": 300 * at, "y": 100}}
            for at, id_ in enumerate(dsl["components"])
        ],
        "edges": [],
    }
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


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def house(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[House]:
    """Yield what all views are made of. It is built once."""
    folder = tmp_path_factory.mktemp("house")
    (folder / "examples").mkdir()
    (folder / "own").mkdir()
    lacking = copy.deepcopy(SUPPORT)
    lacking["components"]["begin"]["obj"]["params"]["prologue"] = "您好！"
    texts = {
        "title": {"en": "Guide", "zh": "向导"},
        "description": {"en": "Guides people. " * 20, "zh": "带人游览。" * 20},
    }
    about = {**texts, "dsl": TRIP}
    (folder / "examples" / "guide.json").write_text(json.dumps(about))
    replies = [
        Reply(text=RICH, reasoning="想一想。", match="包裹", repeat=True),
        Reply(error="The model 'x' is unknown. Choose another model with --model.", match="失败", repeat=True),
        Reply(chunks=["从前"], hangs=True, match="故事", repeat=True),
    ]
    knowledge = FakeKnowledge(chunks=[chunk("c-tea", "茶。"), chunk("c-rice", "米需要水。", "手册.pdf")])
    sections = {"pauses": PausesSection(timeout_s=7500)}
    async with (
        start_app(folder, replies, knowledge=knowledge, sections=sections) as server,
        start_own_server(folder / "own") as own,
        visit(browser, server.url, server.key, own.url) as shown,
    ):
        await CanvasFiles(server.app_state, "tenant", [folder / "examples"]).store()
        desk = await server.agent(DESK, "退款台")
        form = await server.agent(SHIRT, "衬衫")
        trip = await server.agent(TRIP, LONG[:100])
        asked = [
            (await server.ask(agent, question))["data"]["session_id"]
            for agent, question in ((desk, f"我的包裹在哪里？{LONG}"), (desk, "失败"), (form, "一件衬衫"))
        ]
        support = await own.agent(lacking, "支持")
        shown.page.set_default_timeout(20_000)
        yield House(server, own, shown, folder, desk, trip, form, support, *asked)


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
    house.shown.expected.append("status of 401")


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
    house.shown.expected.append("status of 404")


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


def name(view: View) -> str:
    return view.__name__


@pytest.mark.parametrize("view", [*VIEWS, *PANEL_VIEWS, reference], ids=name)
async def test_every_view_is_for_everybody(house: House, view: View) -> None:
    page = house.page
    await view(house)
    problems = await check_view(page, in_panel=view in PANEL_VIEWS)
    if view is embedded:  # a frame takes the language of its visitor
        await page.evaluate("localStorage.setItem('ragflow-lg-language', 'zh')")
        await view(house)
    elif view is not reference:  # its texts are those of the routes
        await ask_view(page, "switchLanguage")
    if view is not reference:
        problems += await find_latin(page)
    await page.evaluate("localStorage.removeItem('ragflow-lg-language')")
    assert not problems, "\n".join(problems)


async def press_until(page: Page, wanted: Locator, key: str = "Tab") -> None:
    """Press a key until something has the focus, which is seen on the whole way."""
    await expect(wanted).to_be_visible()
    for _ in range(60):
        if await wanted.evaluate("(element) => element === document.activeElement"):
            return
        await page.keyboard.press(key)
        assert await ask_view(page, "focus") == ""
    raise AssertionError(f"{wanted} cannot be reached")


async def test_the_keyboard_reaches_everything_and_keeps_its_place(house: House) -> None:
    page = await house.go()
    await press_until(page, page.get_by_role("button", name="退款台"))
    await page.keyboard.press("Enter")
    box = page.get_by_role("textbox", name="Your message")
    await expect(box).to_be_focused()
    await page.keyboard.type("我的包裹")
    await page.keyboard.press("Shift+Enter")
    await page.keyboard.type("在哪里？")
    await page.keyboard.press("Enter")
    await expect(page.locator(".message.user")).to_have_text("我的包裹\n在哪里？")
    await expect(page.locator(".message.assistant")).to_have_attribute("data-status", "succeeded")
    await expect(box).to_be_focused()
    await expect(page.locator("[aria-live=polite]")).to_have_text("The answer is complete.")

    node = page.locator("[data-node='begin']")
    await press_until(page, node)
    await page.keyboard.press("Enter")
    drawer = page.locator(".drawer")
    await expect(drawer).to_be_visible()
    await press_until(page, drawer.get_by_role("button", name="Close"))
    await page.keyboard.press("Enter")
    await expect(drawer).to_have_count(0)
    await expect(node).to_be_focused()
    await page.keyboard.press("Enter")
    await page.keyboard.press("Escape")
    await expect(drawer).to_have_count(0)
    await expect(node).to_be_focused()

    tab = page.get_by_role("tab", name="Graph")
    await press_until(page, tab, "Shift+Tab")
    await page.keyboard.press("ArrowLeft")
    await expect(page.get_by_role("tab", name="Values")).to_have_attribute("aria-selected", "true")
    await expect(page.get_by_role("slider", name="Step")).to_be_visible()

    row = page.locator(".sessions .menu > button").first
    await press_until(page, row, "Shift+Tab")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("menuitem", name="Rename")).to_be_focused()
    assert await ask_view(page, "focus") == ""
    await page.keyboard.press("Escape")
    await expect(row).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("menuitem", name="Rename")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("dialog", name="Rename").get_by_role("textbox")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(row).to_be_focused()

    await press_until(page, page.get_by_role("banner").get_by_role("button", name="Settings"), "Shift+Tab")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Settings", level=1)).to_be_visible()
    await expect(page.get_by_text("checks of the server are not shown to you")).to_be_visible()
    await page.go_back()
    await expect(page.locator(".message.assistant")).to_be_visible()
    await press_until(page, page.get_by_role("link", name="Agents"), "Shift+Tab")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Agents", level=1)).to_be_visible()


async def test_drawers_of_phones_keep_the_focus(house: House) -> None:
    page = await house.talk()
    await page.set_viewport_size({"width": 360, "height": 640})
    for title, part in (("Conversations", ".sessions"), ("Run panel", ".side")):
        switch = page.get_by_role("banner").get_by_role("button", name=title)
        await switch.focus()
        await page.keyboard.press("Enter")
        first = page.locator(part).locator("button, [tabindex='0']").first
        await press_until(page, first)
        for _ in range(40):  # what the drawer covers is out of reach
            await page.keyboard.press("Tab")
            assert await page.evaluate("!document.activeElement.closest('.talk')")
        await first.focus()
        await page.keyboard.press("Escape")
        await expect(page.locator(part)).to_be_hidden()
        await expect(switch).to_be_focused()
