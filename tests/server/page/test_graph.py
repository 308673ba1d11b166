"""The graph and the run log of the page in a real Chromium."""

import re
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page, expect

from ragflow_lg.services.chat import Usage
from tests.fakes.browsers import needs_chromium
from tests.fakes.services import Reply
from tests.server.http.app_server import canvas, start_app
from tests.server.page.visits import ask, open_agent, visit

pytestmark = needs_chromium
expect.set_options(timeout=60_000)  # the machine may be busy

FINDER: dict[str, Any] = {
    "component_name": "Agent",
    "name": "Fact Finder",
    "params": {
        "llm_id": "m",
        "description": "Finds facts.",
        "sys_prompt": "You find facts.",
        "max_rounds": 2,
        "tools": [{"component_name": "Wikipedia", "name": "Wiki", "params": {}}],
    },
}
GUIDE = {
    "llm_id": "m",
    "sys_prompt": "You are a guide.",
    "prompts": [{"role": "user", "content": "{sys.query}"}],
    "max_rounds": 3,
    "tools": [FINDER],
}
AGENT = canvas(
    ("begin", "Begin", {}, ["Agent:0"]),
    ("Agent:0", "Agent", GUIDE, ["Message:0"]),
    ("Message:0", "Message", {"content": ["{Agent:0@content}"]}, []),
)
CALL = {"name": "Fact_Finder_0", "arguments": {"user_prompt": "Where?", "reasoning": "r", "context": "c"}, "id": "1"}


def fan_out(count: int) -> dict[str, Any]:
    """Return a canvas with as many nodes beside each other."""
    params = {"method": "merge", "script": "{sys.query}", "delimiters": [","]}
    names = [f"StringTransform:{at}" for at in range(count)]
    nodes: list[tuple[str, str, dict[str, Any], list[str]]] = [(name, "StringTransform", params, []) for name in names]
    return canvas(("begin", "Begin", {}, names), *nodes)


async def test_an_agent_has_its_rounds_and_calls_in_the_log_and_its_tools_in_the_graph(
    browser: Browser, tmp_path: Path
) -> None:
    replies = [Reply(calls=[CALL], usage=Usage(30, 12, 1)), Reply(text="In Bremen."), Reply(text="It is in Bremen.")]
    async with start_app(tmp_path, replies) as server, visit(browser, server.url, server.key) as shown:
        page = shown.page
        await open_agent(server, page, AGENT)
        await ask(page, "Where is it?")
        await expect(page.locator(".message.assistant")).to_have_attribute("data-status", "succeeded")
        await expect(page.locator("[data-tool='Fact Finder']")).to_have_attribute("data-status", "done")
        await page.get_by_role("tab", name="Run").click()
        rows = page.locator(".timeline .visit-rows > li")
        kinds = await rows.evaluate_all("rows => rows.map((row) => `${row.dataset.kind} ${row.dataset.level}`)")
        assert kinds == ["node 0", "node 0", "round 1", "call 2", "round 3", "round 1", "node 0"]
        await expect(rows.nth(3)).to_contain_text("Fact Finder")
        await expect(rows.nth(1)).to_contain_text("42 tokens")
        titles = await rows.locator("b").all_inner_texts()
        assert titles[1:5] == ["Agent:0", "Round 1 · m", "Fact Finder", "Fact_Finder › Round 1 · m"]
        assert await rows.evaluate_all("rows => rows.every((row) => row.querySelector('rect'))")
        line = page.locator(".facts")
        await line.locator("summary").first.click()
        await expect(line.locator(".step-title")).to_have_text(["begin", *titles[1:5], "Round 2 · m", "Message:0"])
        await line.locator(".call summary").click()
        await expect(line.locator(".call")).to_contain_text('"user_prompt": "Where?"')
        await expect(line.locator(".call")).to_contain_text("In Bremen.")


ROOMS = """(nodes) => Math.min(...nodes.flatMap((node) => {
    const {x, width} = node.querySelector("rect").getBBox();
    return [...node.querySelectorAll("text:not([text-anchor])")].map((text) => {
        const box = text.getBBox();
        return Math.min(x + width - box.x - box.width, box.x - x);
    });
}))"""


async def test_nodes_that_a_turn_does_not_reach_are_shown_so_and_taken_edges_too(
    browser: Browser, tmp_path: Path
) -> None:
    case = {"logical_operator": "and", "items": [{"cpn_id": "sys.query", "operator": "=", "value": "left"}]}
    params = {"conditions": [{**case, "to": ["Message:Left"]}], "end_cpn_ids": ["Message:Right"]}
    dsl = canvas(
        ("begin", "Begin", {}, ["Switch:0"]),
        ("Switch:0", "Switch", params, ["Message:Left", "Message:Right"]),
        ("Message:Left", "Message", {"content": ["left"]}, []),
        ("Message:Right", "Message", {"content": ["right"]}, []),
    )
    names = {"Message:Left": "Hand over to a person who speaks", "Message:Right": "Wwwwwwwww Wwwwwwwwwww " * 4}
    dsl["graph"] = {"nodes": [{"id": id_, "data": {"name": name}} for id_, name in names.items()], "edges": []}
    async with start_app(tmp_path) as server, visit(browser, server.url, server.key) as shown:
        page = shown.page
        await open_agent(server, page, dsl)
        assert await page.locator(".picture [data-node]").evaluate_all(ROOMS) >= 8, "no text touches its node's border"
        await ask(page, "left")
        await expect(page.locator("[data-node='Message:Left']")).to_have_attribute("data-status", "done")
        await expect(page.locator("[data-node='Message:Right']")).to_have_attribute("data-status", "skipped")
        await expect(page.locator("[data-to='Message:Left']")).to_have_attribute("data-taken", "true")
        await expect(page.locator("[data-to='Message:Right']")).not_to_have_attribute("data-taken", "true")


async def place(page: Page) -> str:
    await page.wait_for_timeout(100)
    return await page.locator(".sheet").evaluate("sheet => sheet.style.transform")


async def test_the_picture_is_moved_zoomed_and_searched_by_mouse_and_keyboard(browser: Browser, tmp_path: Path) -> None:
    async with start_app(tmp_path) as server, visit(browser, server.url, server.key) as shown:
        page = shown.page
        await open_agent(server, page, fan_out(40))
        part = page.locator(".minimap")
        await expect(part).to_be_visible()  # at the start, texts can be read
        start = await page.locator(".sheet").evaluate(
            "sheet => sheet.getBoundingClientRect().width / sheet.offsetWidth"
        )
        assert round(start, 2) >= 0.7
        await expect(page.locator(".picture")).to_have_attribute("style", re.compile("var"))  # it fades where it is cut
        await page.get_by_role("button", name="Fit").click()
        await expect(part).to_be_hidden()
        await expect(page.locator(".picture")).not_to_have_attribute("style", re.compile("var"))
        whole = await place(page)
        await page.get_by_role("button", name="Zoom in").click()
        await expect(part).to_be_visible()
        zoomed = await place(page)
        await part.click(position={"x": 5, "y": 5})
        assert len({whole, zoomed, await place(page)}) == 3
        await page.locator(".picture").focus()
        places = {await place(page)}
        for key in ("ArrowLeft", "ArrowUp", "+", "-", "0"):
            await page.keyboard.press(key)
            places.add(await place(page))
        assert len(places) >= 5
        assert await place(page) == whole
        await expect(part).to_be_hidden()
        await page.get_by_role("button", name="Search for a node").click()
        search = page.get_by_role("searchbox", name="Search for a node")
        await search.fill("transform:39")
        await search.press("Enter")
        found = page.locator("[data-node='StringTransform:39']")
        await expect(found).to_have_attribute("data-selected", "true")
        await page.wait_for_timeout(300)
        tools, actions, node = [
            await place_of.bounding_box()
            for place_of in (
                page.get_by_role("toolbar", name="Tools of the graph"),
                page.get_by_role("toolbar", name="What to do with this node"),
                found.locator(":scope > rect"),
            )
        ]
        assert tools is not None
        assert actions is not None
        assert node is not None
        assert node["y"] + node["height"] <= actions["y"] < actions["y"] + actions["height"] <= tools["y"]
        await page.keyboard.press("Tab")
        await page.keyboard.press("Tab")
        await page.keyboard.press("ArrowRight")
        await page.keyboard.press("Enter")
        await expect(page.locator("[data-node='StringTransform:0']")).to_have_attribute("data-selected", "true")


async def test_rounds_are_counted_while_they_run(browser: Browser, tmp_path: Path) -> None:
    outputs = {"notes": {"ref": "LLM:0@content", "type": "Array<string>"}}
    model = {"llm_id": "m", "prompts": [{"role": "user", "content": "{IterationItem:0@item}"}]}
    split = {"method": "split", "split_ref": "sys.query", "delimiters": [","]}
    items = {"items_ref": "StringTransform:0@result", "max_concurrency": 0, "outputs": outputs}
    dsl = canvas(
        ("begin", "Begin", {}, ["StringTransform:0"]),
        ("StringTransform:0", "StringTransform", split, ["Iteration:0"]),
        ("Iteration:0", "Iteration", items, ["Message:0"]),
        ("IterationItem:0", "IterationItem", {}, ["LLM:0"]),
        ("LLM:0", "LLM", model, []),
        ("Message:0", "Message", {"content": ["{Iteration:0@notes}"]}, []),
    )
    for name in ("IterationItem:0", "LLM:0"):
        dsl["components"][name]["parent_id"] = "Iteration:0"
    replies = [Reply(text="one"), Reply(chunks=["two"], hangs=True)]
    async with start_app(tmp_path, replies) as server, visit(browser, server.url, server.key) as shown:
        page = shown.page
        await open_agent(server, page, dsl)
        await page.set_viewport_size({"width": 900, "height": 420})
        await page.locator("header").get_by_role("button", name="Run panel").click()
        await expect(page.locator("[data-node='begin'] > rect")).to_be_in_viewport(ratio=0.99)  # not at the group
        await page.set_viewport_size({"width": 1400, "height": 900})
        await ask(page, "a,b,c")
        await expect(page.locator("[data-rounds]")).to_have_text("round 2")
        await expect(page.locator("[data-node='LLM:0']")).to_have_attribute("data-status", "running")
        await page.get_by_role("button", name="Stop").click()
        await expect(page.locator("[data-node='Message:0']")).to_have_attribute("data-status", "skipped")
