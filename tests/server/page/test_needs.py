"""An agent whose model and dataset are missing, mended on its page in a real Chromium; and the settings."""

import json
import re
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, expect

from ragflow_lg.server.database.key_repository import KeyRepository
from tests.architecture.sources import ROOT
from tests.fakes.browsers import needs_chromium
from tests.fakes.mock_llm import MockLLM, reply
from tests.server.http.native.test_native_settings_routes import ADDING, SECRET, SUPPORT
from tests.server.http.own_server import start_own_server
from tests.server.page.visits import ask, open_agent, visit

pytestmark = needs_chromium


async def test_what_an_agent_lacks_is_mended_before_its_first_message(browser: Browser, tmp_path: Path) -> None:
    files = [tmp_path / "leave.md", tmp_path / "tea.txt"]
    for file, text in zip(files, ("# Leave\n\nTen days of leave.", "Tea is free."), strict=True):
        file.write_text(text)
    async with (
        MockLLM([reply("ready"), reply("Ten days.")]) as llm,
        start_own_server(tmp_path) as server,
        visit(browser, server.url, server.key) as shown,
    ):
        page = shown.page
        agent = await open_agent(server, page, SUPPORT)
        body = {"cron": "0 8 * * *", "query": "leave"}
        (await server.client.post(f"{server.url}/native/v1/agents/{agent}/schedules", json=body)).raise_for_status()
        card = page.get_by_role("region", name="Not ready yet")
        await expect(card).to_contain_text(re.compile(r"^Not ready yet.*model qwen-max@Gate .*dataset d1 "))

        await card.get_by_role("button", name="Choose a model").click()
        await expect(card.get_by_label("Name of the provider")).to_have_value("Gate")
        await card.get_by_label("Address").fill("http://127.0.0.1:9/v1")
        await card.get_by_role("button", name="Try it").click()
        await expect(card.get_by_role("alert")).to_contain_text("cannot be reached")
        await card.get_by_label("Name of the provider").fill("Other")
        await expect(card.get_by_role("alert")).to_have_count(0)
        await card.get_by_label("Name of the provider").fill("Gate")
        await card.get_by_label("Address").fill(llm.base_url)
        await card.get_by_label("API key").fill(SECRET)
        await card.get_by_role("button", name="Try it").click()
        await expect(card.get_by_role("status")).to_contain_text("s: ready")
        await card.get_by_role("button", name="Save").click()
        await expect(card).to_contain_text("dataset d1")

        await card.get_by_role("button", name="Add files").click()
        await card.get_by_label("Name of the dataset").fill("Handbook")
        await card.get_by_label("Add files").set_input_files(files)
        ready = page.locator(".ready")
        await expect(ready).to_contain_text("Ready")
        await expect(ready).to_contain_text("Handbook: 2 files, 2 chunks")
        await ask(page, "leave")
        await expect(page.locator(".message.assistant").last).to_contain_text("Ten days.")
        assert "Ten days of leave." in str(llm.requests[-1].body)
        assert llm.requests[-1].headers["authorization"] == f"Bearer {SECRET}"

        await page.goto(f"{server.url}/#/")
        adding: Any = {"name": "adding.json", "mimeType": "application/json", "buffer": json.dumps(ADDING).encode()}
        await page.locator("input[type=file]").set_input_files(adding)
        await expect(page.get_by_role("dialog")).to_contain_text("Not ready yet")
        await page.get_by_role("dialog").get_by_role("button", name="Add the agent").click()
        await expect(page.get_by_role("link", name="Add an MCP server")).to_be_visible()
        await page.go_back()
        await expect(page.locator(".cards li").filter(has_text="Adding")).to_contain_text("1 missing")
        await page.go_forward()
        await page.get_by_role("link", name="Add an MCP server").click()
        servers = page.get_by_role("region", name="MCP servers")
        await servers.get_by_role("button", name="Add an MCP server").click()
        await servers.get_by_label("Name").fill("files")
        await servers.get_by_label("Address").fill("http://127.0.0.1:9/mcp")
        await servers.get_by_label("Token").fill(SECRET)
        await servers.get_by_role("button", name="Save").click()
        added = servers.get_by_role("listitem").filter(has_text="files")
        await expect(added).to_contain_text("key is set")
        await expect(added.get_by_role("alert")).to_contain_text("Cannot connect to '127.0.0.1'")
        await expect(servers.get_by_label("Token")).to_have_count(0)

        models = page.get_by_role("region", name="Models")
        await expect(models).to_contain_text("key is set")
        await expect(page.get_by_role("region", name="Datasets")).to_contain_text("2 files, 2 chunks")
        await expect(page.get_by_role("region", name="State").get_by_role("group")).to_contain_text("checks are well")
        assert SECRET not in await page.content()
        await page.go_back()
        await expect(page.locator(".opening")).to_contain_text("Hi! I'm your assistant.")
        await expect(page.get_by_role("link", name="Add an MCP server")).to_have_count(0)
        await page.go_forward()
        await added.get_by_role("button", name="Remove").click()
        await expect(servers).to_contain_text("None yet.")
        await models.get_by_role("listitem").filter(has_text="key is set").get_by_role("button", name="Remove").click()
        await expect(models).to_contain_text("The demo model answers. No other model can be used yet.")
        schedules = page.get_by_role("region", name="Schedules")
        await expect(schedules).to_contain_text("Helper 0 8 * * *")
        await schedules.get_by_role("button", name="Remove").click()
        await expect(schedules).to_contain_text("None yet.")
        shown.expected.append("status of 422")  # while the server is unknown


async def test_a_question_is_asked_and_the_demo_chosen_with_a_click(browser: Browser, tmp_path: Path) -> None:
    async with start_own_server(tmp_path) as server, visit(browser, server.url, server.key) as shown:
        page = shown.page
        await open_agent(server, page, SUPPORT)
        await page.get_by_role("button", name="Use the demo").click()
        bar = page.get_by_role("note").filter(has_text="The demo model answers.")
        await expect(bar).to_be_visible()
        await page.get_by_role("button", name="What is in “d1”?").click()
        answer = page.locator(".message.assistant").last
        await expect(answer).to_contain_text("demo")
        await ask(page, "And then?")
        labels = page.locator(".message.assistant > small")
        await expect(labels).to_have_text(["demo", "demo"])
        await page.get_by_role("button", name="Retry").last.click()  # in a copy
        await expect(page.locator(".sessions li")).to_have_count(2)
        await expect(labels).to_have_text(["demo", "demo"])
        await page.reload()
        await expect(labels).to_have_text(["demo", "demo"])
        await bar.get_by_role("button", name="Choose a model").click()
        await page.get_by_role("button", name="End the demo").click()
        await expect(bar).to_have_count(0)
        await expect(labels).to_have_text(["demo", "demo"])

        await page.get_by_role("button", name="New conversation").click()
        missing = page.get_by_role("region", name="Not ready yet")
        await expect(missing).to_contain_text("model qwen-max@Gate")
        await page.locator("[data-node='LLM:Write']").click()
        drawer = page.locator(".drawer")
        await drawer.get_by_role("button", name="Draft").click()
        await drawer.get_by_label("llm_id", exact=True).fill("qwen-plus@Gate")
        await drawer.get_by_role("button", name="Save as a new version").click()
        await expect(missing).to_contain_text("model qwen-plus@Gate")


async def test_a_dataset_is_missed_beside_the_demo_model_and_a_form_is_shown_whole(
    browser: Browser, tmp_path: Path
) -> None:
    async with start_own_server(tmp_path) as server, visit(browser, server.url, server.key) as shown:
        page = shown.page
        handbook, trip = (
            json.loads((ROOT / f"examples/{name}.json").read_text())["dsl"] for name in ("handbook_agent", "trip_form")
        )
        await open_agent(server, page, handbook, "Handbook")
        await expect(page.get_by_role("note").filter(has_text="The demo model answers.")).to_be_visible()
        await expect(page.get_by_role("region", name="Not ready yet")).to_contain_text("dataset handbook")
        await expect(page.get_by_role("button", name="Choose a model")).to_have_count(1)

        await page.goto(f"{server.url}/#/")
        await open_agent(server, page, trip, "Trip")
        form = page.get_by_role("group", name="Inputs")
        assert await form.evaluate("(form) => form.scrollHeight - form.clientHeight") <= 1
        for width, height in ((1440, 900), (360, 640)):
            await page.set_viewport_size({"width": width, "height": height})
            await expect(page.get_by_role("button", name="Start")).to_be_in_viewport(ratio=1)

        await page.set_viewport_size({"width": 1440, "height": 900})
        orders = json.loads((ROOT / "examples/webhook.json").read_text())
        await page.goto(f"{server.url}/#/")
        security = orders["components"]["begin"]["obj"]["params"].pop("security")
        body = {"demo": {await open_agent(server, page, orders, "Closed"): True}}
        closed = page.get_by_role("region", name="Not ready yet")
        await expect(closed).to_contain_text("parameter security")
        await expect(closed.get_by_role("button")).to_have_text(["Draft"])  # no demo helps
        (await server.client.patch(f"{server.url}/native/v1/settings", json=body)).raise_for_status()
        await page.reload()
        await expect(closed).to_contain_text("parameter security")
        orders["components"]["begin"]["obj"]["params"]["security"] = security
        await page.goto(f"{server.url}/#/")
        agent = await open_agent(server, page, orders, "Orders")
        schedule = {"cron": "0 8 * * *", "query": "leave"}
        address = f"{server.url}/api/v1/agents/{agent}/webhook"
        card = page.get_by_role("region", name="How it is started")
        await expect(card).to_contain_text("It runs when its address is called: POST")
        await expect(card.get_by_role("textbox")).to_have_value(address)
        await expect(page.locator(".composer")).to_have_count(0)
        headers = {"X-Webhook-Token": "a long secret"}
        called = await server.stranger().post(address, json={"order": 7, "text": "tea"}, headers=headers)
        assert called.status_code == 200, called.text
        (await server.client.post(f"{server.url}/native/v1/agents/{agent}/schedules", json=schedule)).raise_for_status()
        await page.reload()
        await expect(card).to_contain_text("0 8 * * *")
        await card.get_by_role("link").click()
        await expect(page.locator(".message.assistant")).to_contain_text("Order 7: tea")
        await expect(card).to_have_count(0)
        await expect(page.locator(".composer")).to_have_count(0)

        stranger = await KeyRepository(server.app_state.database).create("acme", 1)
        async with visit(browser, server.url, stranger) as other:  # whose console has no errors
            await other.page.goto(f"{server.url}/#/settings")
            await expect(
                other.page.get_by_text("The models, keys and checks of the server are not shown")
            ).to_be_visible()
            await expect(other.page.get_by_role("region", name="Schedules")).to_contain_text("None yet.")
            await expect(other.page.get_by_role("region", name="State")).to_have_count(0)
            await expect(other.page.get_by_role("alert")).to_have_count(0)
