"""Every view of the page: with axe, in both themes and languages, on small screens, from the right, without motion."""

import copy
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio
from msgspec import Struct
from playwright.async_api import Browser, Page, expect

from ragflow_lg.server.agents.canvas_file_agents import CanvasFiles
from tests.fakes.browsers import needs_chromium
from tests.fakes.knowledge import FakeKnowledge, chunk
from tests.fakes.services import Reply
from tests.server.http.app_server import AppServer, canvas, start_app
from tests.server.http.native.test_native_settings_routes import SUPPORT
from tests.server.http.own_server import start_own_server
from tests.server.page.view_checks import USUAL, ask_view, check_view, find_latin
from tests.server.page.visits import Visit, ask, choose_action, visit

pytestmark = needs_chromium

RICH = r"""# 退款

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
graph TD
```

[^a]: 说明。
"""
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
    about = {"title": {"en": "向导"}, "description": {"en": "带人游览。" * 20}, "dsl": TRIP}
    (folder / "examples" / "向导.json").write_text(json.dumps(about))
    replies = [
        Reply(text=RICH, reasoning="想一想。", match="包裹", repeat=True),
        Reply(error="The model 'x' is unknown. Choose another model with --model.", match="失败", repeat=True),
        Reply(chunks=["从前"], hangs=True, match="故事", repeat=True),
    ]
    knowledge = FakeKnowledge(chunks=[chunk("c-tea", "茶。"), chunk("c-rice", "米需要水。", "手册.pdf")])
    async with (
        start_app(folder, replies, knowledge=knowledge) as server,
        start_own_server(folder / "own") as own,
        visit(browser, server.url, server.key, own.url) as shown,
    ):
        await CanvasFiles(server.app_state, "tenant", [folder / "examples"]).store()
        desk = await server.agent(DESK, "退款台")
        form = await server.agent(SHIRT, "衬衫")
        trip = await server.agent(TRIP, "旅行" * 20)
        asked = [
            (await server.ask(agent, question))["data"]["session_id"]
            for agent, question in ((desk, "我的包裹在哪里？"), (desk, "失败"), (form, "一件衬衫"))
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
    house.shown.problems.clear()  # Chromium reports the status 401 as an error


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
    await expect(page.locator(".pause")).to_be_visible()


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


async def use_it(house: House) -> None:
    page = await house.talk()
    await choose_action(page, "Use it from programs")
    await expect(page.get_by_role("region", name="Use it from programs")).to_be_visible()


async def menu(house: House) -> None:
    page = await house.talk()
    await page.locator(".panel-head").get_by_role("button", name="Menu of the run").click()


async def settings(house: House) -> None:
    page = await house.go("settings", server=house.own)
    await expect(page.locator(".settings details")).to_be_visible()
    await page.get_by_role("button", name="Choose a model").click()


View = Callable[[House], Awaitable[None]]
VIEWS: list[View] = [
    *(agents_empty, agents, sign_in, sign_in_refused, add_dialog, opening, opening_with_a_form),
    *(opening_that_lacks_something, conversation, running, stopped, failed, waiting, settings),
]
PANEL_VIEWS: list[View] = [drawer, draft, alone, source, run_tab, values, compare, use_it, menu]


def name(view: View) -> str:
    return view.__name__


@pytest.mark.parametrize("view", [*VIEWS, *PANEL_VIEWS], ids=name)
async def test_every_view_is_for_everybody(house: House, view: View) -> None:
    await view(house)
    problems = await check_view(house.page, in_panel=view in PANEL_VIEWS)
    await ask_view(house.page, "switchLanguage")
    problems += await find_latin(house.page)
    await house.page.evaluate("localStorage.removeItem('ragflow-lg-language')")
    assert not problems, "\n".join(problems)
