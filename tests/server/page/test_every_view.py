"""Every view of the page: with axe, in both themes and languages, on small screens, from the right, without motion."""

import copy
import json
from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, Page, expect

from ragflow_lg.server.agents.canvas_file_agents import CanvasFiles
from ragflow_lg.server.settings.limits_section import PausesSection
from tests.fakes.browsers import needs_chromium
from tests.fakes.knowledge import FakeKnowledge, chunk
from tests.fakes.services import Reply
from tests.server.http.app_server import canvas, start_app
from tests.server.http.native.test_native_settings_routes import SUPPORT
from tests.server.http.own_server import start_own_server
from tests.server.page.view_checks import ask_view, check_view, find_latin
from tests.server.page.views import PANEL_VIEWS, VIEWS, House, View, embedded, reference
from tests.server.page.visits import visit

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
        shown.expected += ["status of 401", "status of 404"]  # a view is opened with the key of the one before it
        yield House(server, own, shown, folder, desk, trip, form, support, *asked)


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
