"""The drawer of a node, drafts, the timeline and the comparison of runs, in a real Chromium."""

import copy
import re
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Locator, Page, expect

from ragflow_lg.services.chat import Usage
from tests.fakes.browsers import needs_chromium
from tests.fakes.services import Reply
from tests.server.http.app_server import MODEL, AppServer, canvas, start_app
from tests.server.http.native.native_client import native
from tests.server.http.native.test_native_canvas_routes import OLD_DRAWING
from tests.server.page.visits import HOSTILE, ask, choose_action, open_agent, visit

pytestmark = needs_chromium
expect.set_options(timeout=60_000)  # the machine may be busy

BUSY = "The model 'x' answered 429: Your API key did too much."
CHAIN = canvas(
    ("begin", "Begin", {}, ["LLM:0"]),
    ("LLM:0", "LLM", {"llm_id": "m", "prompts": [{"role": "user", "content": "{sys.query}"}]}, ["LLM:1"]),
    (
        "LLM:1",
        "LLM",
        {"llm_id": "m", "sys_prompt": "Be kind", "prompts": [{"role": "user", "content": "{LLM:0@content}"}]},
        ["Message:0"],
    ),
    ("Message:0", "Message", {"content": ["{LLM:1@content}"]}, []),
)

NO_DATASET = canvas(
    ("begin", "Begin", {}, ["Retrieval:0"]), ("Retrieval:0", "Retrieval", {"dataset_ids": [], "query": "sys.query"}, [])
)

BRANCHING = canvas(
    ("begin", "Begin", {}, ["Switch:0"]),
    (
        "Switch:0",
        "Switch",
        {
            "conditions": [
                {
                    "logical_operator": "and",
                    "items": [{"cpn_id": "sys.query", "operator": "contains", "value": "Two"}],
                    "to": ["Message:0"],
                }
            ],
            "end_cpn_ids": ["Message:1"],
        },
        ["Message:0", "Message:1"],
    ),
    ("Message:0", "Message", {"content": ["Twos."]}, []),
    ("Message:1", "Message", {"content": ["Others."]}, []),
)


async def choose_node(page: Page, node: str) -> Locator:
    """Open the drawer of a node in the graph."""
    await page.get_by_role("tab", name="Graph").click()
    await page.locator(f"[data-node='{node}']").click()
    return page.locator(".drawer")


async def inspect_chain(server: AppServer, page: Page) -> Locator:
    """Ask the agent with two models, and open the drawer of the second one."""
    await open_agent(server, page, CHAIN)
    await ask(page, "One")
    await expect(page.locator(".message.assistant")).to_contain_text("Second.")
    return await choose_node(page, "LLM:1")


async def choose_step(page: Page, node: str) -> Locator:
    """Show the values after a node has run."""
    await page.get_by_role("tab", name="Run").click()
    await page.get_by_role("button", name=f"Values after {node}").click()
    return page.locator(".values")


async def test_a_draft_is_run_compared_and_saved_on_request(browser: Browser, tmp_path: Path) -> None:
    replies = [Reply("First."), Reply("A long answer."), Reply("A short answer.", usage=Usage(5, 3, 1, 0.25))]
    async with start_app(tmp_path, replies) as server, visit(browser, server.url, server.key) as shown:
        page = shown.page
        agent = await open_agent(server, page, CHAIN)
        await ask(page, "One")
        await expect(page.locator(".message.assistant")).to_contain_text("A long answer.")
        drawer = await choose_node(page, "LLM:1")
        await expect(drawer.locator(".prompts pre").first).to_have_text("Be kind")
        await expect(drawer.locator(".prompts")).to_contain_text("First.")
        await drawer.get_by_role("button", name="Draft").click()
        prompt = drawer.get_by_label("sys_prompt", exact=True)
        await expect(prompt).to_have_value("Be kind")
        await prompt.fill("Be brief")
        await expect(drawer.locator(".meaning")).to_contain_text("LLM:1: runs again with the new parameters")
        await drawer.get_by_role("button", name="Run again from here with the draft").click()
        compared = page.locator(".comparison")
        await expect(compared).to_be_visible()
        await expect(drawer).to_have_count(0)  # it would cover half of it
        await expect(compared.locator(".side-answer").nth(0)).to_contain_text("A long answer.")
        await expect(compared.locator(".side-answer").nth(1)).to_contain_text("A short answer.")
        await expect(compared.locator(".side-answer .costs").nth(1)).to_contain_text("8 tokens (5 + 3) · cost 0.25")
        await expect(compared.locator(".difference ins").first).to_contain_text("short")
        await expect(compared.locator(".path").nth(0).locator("li")).to_have_text(
            ["begin", "LLM:0", "LLM:1", "Message:0"]
        )
        await expect(compared.locator(".path").nth(1).locator("li").filter(has_text="LLM:0")).to_contain_text(
            "not run again"
        )
        await expect(compared.locator(".path [data-only='true']")).to_have_text(["begin"])
        assert server.model.requests[-1][1].system == "Be brief"
        async with native(server, agent) as client:
            stored = (await client.get("/versions/draft")).json()["dsl"]["components"]["LLM:1"]["obj"]["params"]
            assert stored["sys_prompt"] == "Be kind"
            await page.reload()
            drawer = await choose_node(page, "LLM:1")
            await drawer.get_by_role("button", name="Draft").click()
            await expect(prompt).to_have_value("Be brief")
            await drawer.get_by_role("button", name="Save as a new version").click()
            await expect(drawer.get_by_text("Saved.")).to_be_visible()
            saved = (await client.get("/versions/published")).json()["dsl"]["components"]["LLM:1"]["obj"]["params"]
            assert saved == {**stored, "sys_prompt": "Be brief"}


async def test_a_draft_that_failed_is_tried_again(browser: Browser, tmp_path: Path) -> None:
    replies = [Reply("First."), Reply("Second."), *[Reply(error=BUSY), Reply("First.")] * 2, Reply("Brief.")]
    async with start_app(tmp_path, replies) as server, visit(browser, server.url, server.key) as shown:
        page = shown.page
        drawer = await inspect_chain(server, page)
        await drawer.get_by_role("button", name="Draft").click()
        await drawer.get_by_label("sys_prompt", exact=True).fill("Be brief")
        await drawer.get_by_role("button", name="Run again from here with the draft").click()
        card = page.locator(".error-card")
        await expect(card.locator(".hint")).to_have_text("Try again. If it stays, look at the node.")
        await card.get_by_role("button", name="Retry").click()
        await expect(page.locator(".sessions li")).to_have_count(3)
        await expect(card).to_be_visible()
        await page.reload()
        await card.get_by_role("button", name="Retry").click()
        await expect(page.locator(".message.assistant")).to_contain_text("Brief.")
        assert [request.system for _, request in server.model.requests][2:] == [
            "Be brief",
            "",
            "Be brief",
            "",
            "Be brief",
        ]


async def test_a_node_of_an_old_canvas_is_edited_as_it_runs(browser: Browser, tmp_path: Path) -> None:
    replies = [Reply("Kind."), Reply("Brief.")]
    async with start_app(tmp_path, replies) as server, visit(browser, server.url, server.key) as shown:
        page = shown.page
        agent = await open_agent(server, page, OLD_DRAWING)
        await ask(page, "One")
        await expect(page.locator(".message.assistant").last).to_contain_text("Kind.")
        drawer = await choose_node(page, "Generate:0")
        await drawer.get_by_role("button", name="Draft").click()
        prompt = drawer.get_by_label("sys_prompt", exact=True)
        await expect(prompt).to_have_value("Be kind")
        await prompt.fill("Be brief")
        await drawer.get_by_role("button", name="Run again from here with the draft").click()
        await expect(page.locator(".comparison .side-answer").nth(1)).to_contain_text("Brief.")
        drawer = await choose_node(page, "Generate:0")
        await drawer.get_by_role("button", name="Draft").click()
        await drawer.get_by_role("button", name="Save as a new version").click()
        await expect(drawer.get_by_text("Saved.")).to_be_visible()
        async with native(server, agent) as client:
            saved = (await client.get("/versions/published")).json()["dsl"]["components"]["Generate:0"]["obj"]
        assert (saved["component_name"], saved["params"]["sys_prompt"]) == ("LLM", "Be brief")
        await page.goto(f"{server.url}/#/")
        await open_agent(server, page, NO_DATASET, "Empty")
        await page.get_by_role("region", name="Not ready yet").get_by_role("button", name="Draft").click()
        await expect(drawer.get_by_label("dataset_ids", exact=True)).to_have_value("[]")


async def test_a_node_runs_alone_with_another_input(browser: Browser, tmp_path: Path) -> None:
    replies = [Reply("First."), Reply("Second."), Reply("Alone.")]
    async with start_app(tmp_path, replies) as server, visit(browser, server.url, server.key) as shown:
        page = shown.page
        drawer = await inspect_chain(server, page)
        await drawer.get_by_role("button", name="Run alone").click()
        await drawer.get_by_label("LLM:0@content").fill("Other text")
        await drawer.get_by_role("button", name="Run this node").click()
        await expect(drawer.locator(".result")).to_contain_text("Alone.")
        assert server.model.requests[-1][1].messages[-1]["content"] == "Other text"
        await expect(page.locator(".message")).to_have_count(2)


async def test_time_travel_with_a_changed_value(browser: Browser, tmp_path: Path) -> None:
    replies = [Reply("First."), Reply("Second."), Reply(chunks=["Thi", "rd."], pause_s=1)]
    async with start_app(tmp_path, replies) as server, visit(browser, server.url, server.key) as shown:
        page = shown.page
        await open_agent(server, page, CHAIN)
        await ask(page, "One")
        await expect(page.locator(".message.assistant")).to_contain_text("Second.")
        moment = await choose_step(page, "LLM:0")
        await expect(page.locator(".step-name")).to_contain_text("After LLM:0")
        row = moment.locator(".variable").filter(has_text="LLM:0 · content")
        await expect(row).to_have_attribute("data-change", "added")
        await expect(row.locator("pre")).to_have_text("First.")
        await moment.get_by_role("button", name="Edit: LLM:0 · content").press("Enter")
        await expect(moment.get_by_role("textbox", name="LLM:0 · content")).to_be_focused()
        await page.keyboard.press("Control+A")
        await page.keyboard.type("Changed.")
        await moment.get_by_role("button", name="Run again with these values").click()
        await expect(page.locator(".facts .live")).to_be_visible()
        await expect(page.locator(".message.assistant").last).to_contain_text("Third.")
        assert server.model.requests[-1][1].messages[-1]["content"] == "Changed."
        await expect(page.locator(".sessions li")).to_have_count(2)
        await expect(page.locator(".sessions li").first).to_contain_text("↳ LLM:1: One")
        await choose_action(page, "Compare")
        outputs = page.locator(".comparison details").filter(has_text="LLM:0 · content")
        await expect(outputs.locator("ins").first).to_contain_text("Changed")
        first, second = page.get_by_label("First run"), page.get_by_label("Second run")
        await expect(first.locator("option")).to_have_count(3)  # of no run, and of two: the copy has played nothing
        again = re.compile(r"^\s*\d+:\d+:\d+\s[AP]M · succeeded · ↳ LLM:1: One\s*$")
        await expect(second.locator("option:checked")).to_have_text(again)
        await first.select_option(await second.input_value())
        await expect(first.locator("option:checked")).to_have_text(again)
        await page.get_by_role("button", name="Close", exact=True).click()
        await page.locator(".sessions li").last.get_by_role("link").click()
        await choose_action(page, "Compare")
        await expect(second.locator("option:checked")).to_have_text(re.compile(r"M · succeeded · One\s*$"))
        await expect(first.locator("option:checked")).to_have_text(again)

        await page.goto(f"{server.url}/#/")
        await open_agent(server, page, BRANCHING, "Branching")
        await ask(page, "One")
        await expect(page.locator(".message.assistant")).to_contain_text("Others.")
        moment = await choose_step(page, "Switch:0")
        await expect(moment.get_by_text("Switch:0 · _next", exact=True)).to_be_visible()
        await expect(moment.get_by_role("button", name="Edit: Switch:0 · _next")).to_have_count(0)
        await moment.get_by_role("button", name="Edit: Switch:0 · next").click()
        await expect(moment).to_contain_text("The branch that was taken stays.")


async def test_hostile_values_stay_texts_in_the_drawer_and_the_timeline(browser: Browser, tmp_path: Path) -> None:
    dsl = copy.deepcopy(MODEL)
    params: dict[str, Any] = dsl["components"]["LLM:0"]["obj"]["params"]
    params["sys_prompt"] = f"System {HOSTILE}"
    params[HOSTILE] = HOSTILE
    dsl["variables"] = {HOSTILE: {"type": "string", "value": HOSTILE}}
    dsl["globals"] = {"sys.query": "", f"env.{HOSTILE}": HOSTILE}
    replies = [Reply(HOSTILE), Reply(f"{HOSTILE}!")]
    async with start_app(tmp_path, replies) as server, visit(browser, server.url, server.key) as shown:
        page = shown.page
        await open_agent(server, page, dsl)
        await ask(page, HOSTILE)
        await expect(page.locator(".message.assistant")).to_have_attribute("data-status", "succeeded")
        drawer = await choose_node(page, "LLM:0")
        await expect(drawer.locator(".prompts pre").first).to_contain_text("System <img")
        await drawer.get_by_role("button", name="Draft").click()
        await drawer.get_by_label("sys_prompt", exact=True).fill(f"Other {HOSTILE}")
        await drawer.get_by_role("button", name="Run again from here with the draft").click()
        await expect(page.locator(".comparison .side-answer").nth(1)).to_contain_text("!")
        moment = await choose_step(page, "LLM:0")
        await moment.get_by_text("The whole state").click()
        await moment.get_by_role("searchbox").fill("env.")
        await expect(moment.locator(".variable").filter(has_text="env.")).to_contain_text("<script>")
        assert await page.evaluate("window.hacked") is None


async def test_the_panel_shows_each_turn_and_opens_at_the_node_that_failed(browser: Browser, tmp_path: Path) -> None:
    replies = [Reply("First."), Reply("Second."), Reply(error="The model is away.")]
    async with start_app(tmp_path, replies) as server, visit(browser, server.url, server.key) as shown:
        page = shown.page
        await open_agent(server, page, CHAIN)
        await expect(page.get_by_text("Ask something, and watch it here.")).to_be_visible()
        await ask(page, "One")
        await expect(page.locator(".message.assistant")).to_contain_text("Second.")
        await ask(page, "Two")
        await expect(page.locator(".drawer h2")).to_have_text("LLM:0")
        await expect(page.locator(".drawer")).to_contain_text("The model is away.")
        await page.get_by_role("tab", name="Run").click()
        await expect(page.locator(".timeline .words")).to_have_text(["begin", "LLM:0"])
        turns = page.get_by_role("combobox", name="Turn")
        await turns.select_option("Turn 1 · One")
        await expect(page.locator(".drawer")).to_have_count(0)  # it has opened by itself, for the failure
        await turns.select_option("Turn 2 · Two")
        await expect(page.locator(".drawer h2")).to_have_text("LLM:0")
        await turns.select_option("Turn 1 · One")
        rows = ["begin", "LLM:0 → First.", "LLM:1 → Second.", "Message:0 → Second."]
        await expect(page.locator(".timeline .words")).to_have_text(rows)
        await expect(page.locator(".engine li span")).to_have_text(["The message arrives", "End of the turn"])
        await choose_action(page, "中文", "Menu")
        await expect(page.get_by_role("combobox", name="轮次").locator("option:checked")).to_have_text("第 1 轮 · One")
        await expect(page.locator(".picture .state text").first).to_contain_text("秒")
        await choose_action(page, "English", "菜单")
        await expect(page.locator(".picture .state text").first).to_contain_text(" s")
        await choose_action(page, "Compare")
        await expect(page.get_by_label("First run").locator("option:checked")).to_contain_text(" · succeeded · One")
        await expect(page.get_by_label("Second run").locator("option:checked")).to_contain_text(" · failed · Two")
