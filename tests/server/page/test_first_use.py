"""The page as its users meet it: the first use from the file to the download, two tabs, many agents."""

import json
from pathlib import Path

from msgspec.structs import replace
from playwright.async_api import Browser, expect

from ragflow_lg.integrations.code.programs import CodeResult, CodeSandbox
from ragflow_lg.services.artifacts import Artifact
from tests.fakes.browsers import needs_chromium
from tests.fakes.code import ScriptedSandbox
from tests.fakes.knowledge import FakeKnowledge, chunk
from tests.fakes.services import Reply
from tests.server.http.app_server import MODEL, canvas, start_app
from tests.server.page.visits import ask, open_agent, visit

pytestmark = needs_chromium

COOK = canvas(
    ("begin", "Begin", {"prologue": "What shall we cook?"}, ["UserFillUp:0"]),
    (
        "UserFillUp:0",
        "UserFillUp",
        {"enable_tips": True, "tips": "For how many?", "inputs": {"guests": {"name": "Guests", "type": "integer"}}},
        ["Retrieval:0"],
    ),
    ("Retrieval:0", "Retrieval", {"dataset_ids": ["ds1"], "query": "sys.query"}, ["CodeExec:0"]),
    ("CodeExec:0", "CodeExec", {"script": "x", "outputs": {"r": {"type": "Any"}}}, ["LLM:0"]),
    (
        "LLM:0",
        "LLM",
        {"llm_id": "m", "cite": True, "prompts": [{"role": "user", "content": "{Retrieval:0@formalized_content}"}]},
        ["Message:0"],
    ),
    ("Message:0", "Message", {"content": ["{LLM:0@content}\n\n{CodeExec:0@attachments}"]}, []),
)


async def test_the_first_use_leads_from_a_file_to_an_answer_with_sources_and_files(
    browser: Browser, tmp_path: Path
) -> None:
    words = ["Cook ", "the ", "rice ", "in ", "water ", "[ID:61]."]
    chunks = [chunk("c-tea", "Tea likes hills."), chunk("c-rice", "Rice needs water.")]
    file = tmp_path / "cook.json"
    file.write_text(json.dumps(COOK))
    async with (
        start_app(tmp_path, [Reply(chunks=words, pause_s=0.1)], knowledge=FakeKnowledge(chunks=chunks)) as server,
        visit(browser, server.url, server.key) as shown,
    ):
        page, state = shown.page, server.app_state
        code = ScriptedSandbox(CodeResult("", "", 0, True, 1, (Artifact("list.csv", "text/csv", b"rice,1\n"),)))
        server.app_state = replace(
            state, services=replace(state.services, integrations={**state.services.integrations, CodeSandbox: code})
        )
        server.app.state.app_state = server.turns._app_state = server.app_state
        await page.set_input_files("input[type=file]", file)
        await expect(page.get_by_text("It can run.")).to_be_visible()
        await expect(page.locator(".findings li")).not_to_have_count(0)
        await page.get_by_role("button", name="Add the agent").click()
        await expect(page.locator(".prologue")).to_have_text("What shall we cook?")
        await ask(page, "Something with rice")
        form = page.get_by_role("form", name="UserFillUp:0")
        await expect(form).to_contain_text("For how many?")
        await form.get_by_label("Guests").fill("4")
        await form.get_by_role("button", name="Answer").click()
        answer = page.locator(".message.assistant").last
        await expect(answer).to_contain_text("Cook the rice")
        await expect(answer).to_have_attribute("data-status", "succeeded")
        await expect(page.locator("[data-node='LLM:0']")).to_have_attribute("data-status", "done")
        await answer.locator(".piece [data-cite]").click()
        await expect(page.get_by_role("complementary")).to_contain_text("Rice needs water.")
        async with page.expect_download() as waiting:
            await answer.get_by_role("link", name="list.csv").click()
        assert (await (await waiting.value).path()).read_bytes() == b"rice,1\n"


async def test_two_tabs_show_one_conversation(browser: Browser, tmp_path: Path) -> None:
    words = [f"w{at} " for at in range(30)]
    replies = [Reply(chunks=words, pause_s=0.2), Reply(text="Second.")]
    async with start_app(tmp_path, replies) as server, visit(browser, server.url, server.key) as shown:
        first = shown.page
        await open_agent(server, first, MODEL)
        await ask(first, "Count")
        await expect(first.locator(".message.assistant")).to_contain_text("w2 ")
        place = first.url.partition("#")[2]
        second = await browser.new_page()
        second.on("pageerror", lambda error: shown.problems.append(str(error)))
        second.on("console", lambda line: shown.problems.extend([line.text] if line.type == "error" else []))
        await second.goto(f"{server.url}/#key={server.key}")
        await second.goto(f"{server.url}/#{place}")
        for page in (first, second):
            await expect(page.locator(".message.assistant")).to_contain_text("w29")
            await expect(page.locator(".message.user")).to_have_text(["Count"])
            assert (await page.locator(".message.assistant .markdown").inner_text()).split() == "".join(words).split()
        await ask(second, "Again")
        await expect(second.locator(".message.assistant").last).to_contain_text("Second.")
        await first.evaluate("dispatchEvent(new Event('focus'))")
        await expect(first.locator(".message.user")).to_have_text(["Count", "Again"])
        await expect(first.locator(".message.assistant").last).to_contain_text("Second.")


async def test_a_link_replaces_a_key_only_if_the_reader_agrees(browser: Browser, tmp_path: Path) -> None:
    async with start_app(tmp_path) as server, visit(browser, server.url, server.key) as shown:
        page, asked = shown.page, list[str]()
        stored = "sessionStorage.getItem('ragflow-lg-key')"
        other = await server.new_key("other")
        page.on("dialog", lambda dialog: asked.append(dialog.message))
        page.once("dialog", lambda dialog: dialog.dismiss())
        await page.goto(f"{server.url}/#key={other}")
        await expect(page).to_have_url(f"{server.url}/")
        assert await page.evaluate(stored) == server.key
        await page.goto(f"{server.url}/#key={server.key}")  # it is the same
        await expect(page).to_have_url(f"{server.url}/")
        page.once("dialog", lambda dialog: dialog.accept())
        await page.goto(f"{server.url}/#key={other}")
        await expect(page).to_have_url(f"{server.url}/")
        assert await page.evaluate(stored) == other
        assert ["another key than yours" in text for text in asked] == [True, True]
