"""The page in a real Chromium: it talks to a real server, loads nothing from elsewhere, and reports no error."""

import json
import signal
from pathlib import Path

from playwright.async_api import Browser, expect

from tests.fakes.browsers import needs_chromium
from tests.fakes.mock_llm import MockLLM, reply
from tests.fakes.services import Reply
from tests.server.cli.command import ROOT
from tests.server.http.app_server import canvas, start_app
from tests.server.http.native.test_native_canvas_routes import OLD_DRAWING
from tests.server.page.visits import HOSTILE, ask, choose_action, open_agent, visit
from tests.server.replicas import start_replica

pytestmark = needs_chromium

MODEL = canvas(
    ("begin", "Begin", {}, ["LLM:0"]),
    ("LLM:0", "LLM", {"llm_id": "m", "prompts": [{"role": "user", "content": "{sys.query}"}]}, ["Message:0"]),
    ("Message:0", "Message", {"content": ["{LLM:0@content}"]}, []),
)


async def test_a_canvas_is_added_runs_and_its_forms_are_answered_after_a_reload(
    browser: Browser, tmp_path: Path
) -> None:
    async with start_app(tmp_path) as server, visit(browser, server.url, server.key) as shown:
        page = shown.page
        assert server.key not in page.url
        await page.set_input_files("input[type=file]", ROOT / "examples" / "order_form.json")
        await expect(page.get_by_text("It can run.")).to_be_visible()
        await expect(page.get_by_text("differs-fillup-checked")).to_have_count(2)
        await page.get_by_role("button", name="Add the agent").click()
        await ask(page, "Shirt and shoes")
        await expect(page.locator(".pause")).to_have_count(2)
        await expect(page.locator("[data-node='UserFillUp:Shirt']")).to_have_attribute("data-status", "waiting")
        await page.reload()
        shirt = page.get_by_role("form", name="Shirt")
        await shirt.get_by_label("Colour").select_option("red")
        await shirt.get_by_label("Size").fill("42")
        shoes = page.get_by_role("form", name="Shoes")
        await shoes.get_by_label("Size").fill("39")
        await shirt.get_by_role("button", name="Answer").click()
        await expect(page.locator(".pause")).to_have_count(1)
        await expect(shoes.get_by_label("Size")).to_have_value("39")
        await shoes.get_by_role("button", name="Answer").click()
        for _ in range(2):
            asked = ["Which shirt?", "Which shoes?", "Which shoes?"]
            await expect(page.locator(".message.assistant .markdown p")).to_have_text(
                [*asked, "A red shirt of size 42, and shoes of size 39."]
            )
            await page.reload()
        await expect(page.locator("[data-node='Message:Order']")).to_have_attribute("data-status", "done")


async def test_a_file_that_is_no_canvas_is_explained(browser: Browser, tmp_path: Path) -> None:
    async with start_app(tmp_path) as server, visit(browser, server.url, server.key) as shown:
        wrong = tmp_path / "wrong.json"
        wrong.write_text("{")
        await shown.page.set_input_files("input[type=file]", wrong)
        await expect(shown.page.get_by_text("It cannot run.")).to_be_visible()
        await expect(shown.page.get_by_text("1:2")).to_be_visible()
        await expect(shown.page.get_by_role("button", name="Add the agent")).to_be_disabled()
        await shown.page.keyboard.press("Escape")
        await choose_action(shown.page, "中文", "Menu")
        wrong.write_text(json.dumps(OLD_DRAWING))
        await shown.page.set_input_files("input[type=file]", wrong)
        findings = shown.page.locator(".findings li").filter(has_text="legacy-component")
        await expect(findings.filter(has_text="画布含有 RAGFlow 0.20 之前的组件")).to_have_count(3)


async def test_a_stream_goes_on_after_a_reload(browser: Browser, tmp_path: Path) -> None:
    words = [f"w{at} " for at in range(40)]
    replies = [Reply(chunks=words, pause_s=0.1)]
    async with start_app(tmp_path, replies) as server, visit(browser, server.url, server.key) as shown:
        await open_agent(server, shown.page, MODEL)
        await ask(shown.page, "Count")
        await expect(shown.page.locator(".message.assistant")).to_contain_text("w3 ")
        await shown.page.reload()
        await expect(shown.page.locator(".message.assistant")).to_contain_text("w39", timeout=15_000)
        await expect(shown.page.locator(".message.assistant")).to_have_count(1)
        assert "".join(words).split() == (await shown.page.locator(".message.assistant").inner_text()).split()
        await expect(shown.page.locator(".message.user")).to_have_text(["Count"])


async def test_a_run_is_stopped(browser: Browser, tmp_path: Path) -> None:
    replies = [Reply(chunks=["Once upon"], hangs=True)]
    async with start_app(tmp_path, replies) as server, visit(browser, server.url, server.key) as shown:
        await open_agent(server, shown.page, MODEL)
        await ask(shown.page, "A story")
        await expect(shown.page.locator(".message.assistant")).to_contain_text("Once upon")
        await shown.page.get_by_role("button", name="Stop").click()
        await expect(shown.page.get_by_role("button", name="Send")).to_be_visible()
        await expect(shown.page.locator(".message.assistant")).to_have_attribute("data-status", "cancelled")


async def test_a_conversation_is_found_again_rerun_and_forked(browser: Browser, tmp_path: Path) -> None:
    replies = [Reply(text="First."), Reply(text="Second."), Reply(text="Third.")]
    async with start_app(tmp_path, replies) as server, visit(browser, server.url, server.key) as shown:
        page = shown.page
        await open_agent(server, page, MODEL)
        await ask(page, "One")
        await expect(page.get_by_text("First.")).to_be_visible()
        await ask(page, "Two")
        await expect(page.get_by_text("Second.")).to_be_visible()
        await expect(page.locator(".message")).to_have_count(4)
        await page.locator("[data-node='LLM:0']").click()
        await page.locator(".node-actions").get_by_role("button", name="Run again from here").click()
        await expect(page.locator(".message").get_by_text("Third.")).to_be_visible()
        await expect(page.locator(".sessions li")).to_contain_text(["↳ LLM:0: Two", "One"])
        await page.get_by_role("tab", name="Run").click()
        await page.get_by_role("button", name="Values after LLM:0").click()
        await page.get_by_role("button", name="Fork here").click()
        await expect(page.locator(".sessions li")).to_have_count(3)
        await page.get_by_role("button", name="Continue").click()
        await expect(page.locator(".message.assistant").last).to_have_attribute("data-status", "succeeded")


async def test_hostile_texts_stay_texts(browser: Browser, tmp_path: Path) -> None:
    transform = {"method": "merge", "script": "x", "delimiters": [","]}
    dsl = canvas(
        ("begin", "Begin", {}, ["LLM:0", f"StringTransform:{HOSTILE}"]),
        ("LLM:0", "LLM", {"llm_id": "m", "prompts": [{"role": "user", "content": "x"}]}, ["Message:0"]),
        (f"StringTransform:{HOSTILE}", "StringTransform", transform, []),
        ("Message:0", "Message", {"content": ["{LLM:0@content}"]}, []),
    )
    dsl["graph"] = {"nodes": [{"id": "LLM:0", "data": {"name": HOSTILE}}], "edges": []}
    answer = (
        f"{HOSTILE} [link](javascript:window.hacked=1) ![p](http://192.0.2.1/p.png) <style>*{{display:none}}</style>"
    )
    replies = [Reply(text=answer, reasoning=HOSTILE)]
    async with start_app(tmp_path, replies) as server, visit(browser, server.url, server.key) as shown:
        page = shown.page
        await open_agent(server, page, dsl, HOSTILE[:60])
        await ask(page, HOSTILE)
        await expect(page.locator(".message.assistant")).to_contain_text("link")
        await page.locator("[data-node='Message:0']").click()
        for name in ("Run", "Values"):
            await page.get_by_role("tab", name=name).click()
        assert await page.evaluate("window.hacked") is None
        assert await page.locator(".message a").first.get_attribute("href") is None
        picture = page.get_by_role("link", name="Picture of 192.0.2.1, not loaded: p")
        await expect(picture).to_have_attribute("rel", "noopener noreferrer nofollow")


async def test_a_link_with_a_key_that_is_not_valid_leads_to_signing_in(browser: Browser, tmp_path: Path) -> None:
    async with start_app(tmp_path) as server, visit(browser, server.url, "ragflow-expired") as shown:
        page = shown.page
        await expect(page.get_by_role("alert")).to_have_text("The server does not accept this key.")
        shown.expected.append("status of 401")
        await page.get_by_label("API key").fill(server.key)
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("heading", name="Agents")).to_be_visible()
        await page.get_by_role("button", name="Menu").click()
        await page.get_by_role("menuitem", name="Sign out").click()
        await expect(page.get_by_role("alert")).to_have_count(0)


async def test_the_page_goes_on_when_its_server_is_killed(browser: Browser, tmp_path: Path) -> None:
    words = [f"w{at} " for at in range(30)]
    async with MockLLM([reply(*words, piece_delay_s=0.1)]) as llm:
        settings = tmp_path / "settings.toml"
        settings.write_text(
            f'checkpoints = "sqlite:///{tmp_path}/sessions.db"\n[providers.Mock]\nbase_url = "{llm.base_url}"\n'
            f'[server]\ndatabase = "sqlite:///{tmp_path}/server.db"\nfiles = "{tmp_path}/files"\n'
        )
        first = await start_replica(settings, "")
        address = str(first.client.base_url).removesuffix("/api/v1/")
        agent = (await first.client.post("/agents", json={"title": "Helper", "dsl": MODEL})).json()["data"]["id"]
        async with visit(browser, address, first.key) as shown:
            page = shown.page
            await page.goto(f"{address}/#/{agent}")
            await ask(page, "Count")
            await expect(page.locator(".message.assistant")).to_contain_text("w3 ")
            first.process.send_signal(signal.SIGKILL)
            await first.process.wait()
            await expect(page.get_by_role("status")).to_be_visible(timeout=15_000)
            second = await start_replica(settings, first.key, int(address.rpartition(":")[2]))
            try:
                await expect(page.locator(".message.assistant")).to_contain_text("w29", timeout=30_000)
                for node in ("LLM:0", "Message:0"):  # the events of the run that goes on are followed
                    await expect(page.locator(f"[data-node='{node}']")).to_have_attribute("data-status", "done")
                assert "".join(words).split() == (await page.locator(".message.assistant").inner_text()).split()
                await page.get_by_role("tab", name="Run").click()
                titles = page.locator(".visit-rows [data-kind='node'] b")
                await expect(titles).to_have_text(["begin", "LLM:0", "Message:0"])  # each once
                await page.goto("about:blank")  # it must not ask the server that ends now
                shown.expected += ["net::ERR_", "status of "]  # the run is not there yet
            finally:
                second.process.kill()
                await second.process.wait()
        await first.client.aclose()
        await second.client.aclose()
