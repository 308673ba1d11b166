"""The conversation in a real Chromium: who follows it, what stays with each answer, and how a turn ends without one."""

import asyncio
import re
from pathlib import Path

from playwright.async_api import Browser, FilePayload, Page, Route, expect

from ragflow_lg.services.chat import Usage
from tests.fakes.browsers import needs_chromium
from tests.fakes.images import PNG
from tests.fakes.services import Reply
from tests.server.http.app_server import canvas, start_app
from tests.server.page.visits import OF_TALK, ask, open_agent, visit

pytestmark = needs_chromium

DESK = canvas(
    ("begin", "Begin", {}, ["LLM:Desk"]),
    ("LLM:Desk", "LLM", {"llm_id": "m", "prompts": [{"role": "user", "content": "{sys.query}"}]}, ["Message:Reply"]),
    ("Message:Reply", "Message", {"content": ["{LLM:Desk@content}"]}, []),
)
READER = canvas(
    ("begin", "Begin", {}, ["LLM:0"]),
    (
        "LLM:0",
        "LLM",
        {"llm_id": "m", "prompts": [{"role": "user", "content": "{sys.query} {sys.files}"}]},
        ["Message:0"],
    ),
    ("Message:0", "Message", {"content": ["{LLM:0@content}"]}, []),
)
SCROLL = """(log) => new Promise((done) => {
  log.addEventListener("scroll", () => setTimeout(done), { once: true });
  log.scrollTop -= 50;
})"""
WRONG_MODEL = "The model 'x' is unknown. Choose another model with --model of run or serve."


async def distance(page: Page) -> int:
    """Return how much of the conversation is below the edge, in pixels."""
    return await page.evaluate(
        "() => { const log = document.querySelector('.messages');"
        " return log.scrollHeight - log.scrollTop - log.clientHeight }"
    )


async def test_the_log_follows_only_a_reader_at_its_end(browser: Browser, tmp_path: Path) -> None:
    words = [f"w{at}\n\n" for at in range(400)]
    replies = [Reply(chunks=words, pause_s=0.02), Reply(error="It is broken.", repeat=True)]
    async with start_app(tmp_path, replies) as server, visit(browser, server.url, server.key) as shown:
        page = shown.page
        newest = page.get_by_role("button", name="Newest")
        await open_agent(server, page, DESK)
        await expect(page.get_by_role("textbox", name="Your message")).to_be_focused()
        await ask(page, "Count")
        await expect(page.locator(".message.assistant")).to_contain_text("w60")
        assert await distance(page) <= 40
        await page.locator(".messages").hover()
        await page.mouse.wheel(0, -400)
        await expect(newest).to_be_visible()
        top = await page.evaluate("document.querySelector('.messages').scrollTop")
        await page.get_by_role("textbox", name="Your message").fill("And then?")
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("The answer is still being written.")).to_be_visible()
        await expect(page.get_by_role("textbox", name="Your message")).to_have_value("And then?")
        await expect(page.locator(".message.assistant")).to_contain_text("w399")
        assert await page.evaluate("document.querySelector('.messages').scrollTop") == top
        await newest.click()
        await expect(newest).to_have_count(0)
        assert await distance(page) <= 40
        await page.evaluate("document.querySelector('.messages').scrollTop = 0")
        await ask(page, "And then?")
        await expect(page.get_by_role("button", name="Retry").last).to_be_in_viewport()  # the end of the error
        await page.locator(".messages").hover()
        await page.mouse.wheel(0, -400)
        await expect(newest).to_be_visible()
        await page.get_by_role("button", name=OF_TALK).click()
        await page.locator(".messages").evaluate(SCROLL)
        await expect(page.get_by_role("menuitem", name="Rename")).to_be_visible()  # as while an answer is written
        await page.keyboard.press("Escape")
        await page.get_by_role("button", name="New conversation").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("New conversation")
        await page.wait_for_timeout(300)
        await expect(newest).to_have_count(0)


async def test_each_answer_keeps_its_steps_and_its_error(browser: Browser, tmp_path: Path) -> None:
    replies = [
        Reply(text="It is in Hamburg.", reasoning="I look it up.", usage=Usage(40, 2, 1)),
        Reply(error=WRONG_MODEL),
        Reply(text="It is in Rome.", reasoning="I look again."),
        Reply(text="It is in Oslo."),
        Reply(text="It is in Bern."),
        Reply(text="It is in Cork."),
    ]
    async with start_app(tmp_path, replies) as server, visit(browser, server.url, server.key) as shown:
        page = shown.page
        await open_agent(server, page, DESK)
        for question, end in (("One", "Hamburg"), ("Two", "LLM:Desk failed"), ("Three", "Rome")):
            await ask(page, question)
            await expect(page.locator(".message.assistant").last).to_contain_text(end)
        lines, card = page.locator(".facts"), page.locator(".error-card")
        for _ in range(2):
            await expect(lines).to_have_count(3)
            await expect(lines.first.locator("summary")).to_contain_text(re.compile("3 nodes.* s .*42 tokens"))
            await expect(card.get_by_role("heading")).to_have_text("LLM:Desk failed")
            await expect(card.locator(".cause")).to_have_text("The model 'x' is unknown.")
            await expect(card.get_by_role("link", name="Choose a model")).to_be_visible()
            await expect(card.get_by_role("button", name="Retry")).to_be_visible()
            await lines.first.locator("summary").click()
            await expect(lines.first.locator(".step-title")).to_have_text(["begin", "LLM:Desk", "Message:Reply"])
            await expect(lines.first.locator(".thinking")).to_contain_text("I look it up.")
            await card.get_by_role("button", name="Show node").click()
            await expect(page.locator("[data-node='LLM:Desk']")).to_have_attribute("data-status", "failed")
            await lines.first.get_by_role("button", name="Show run").click()
            await expect(page.locator("[data-node='LLM:Desk']")).to_have_attribute("data-status", "done")
            await page.reload()
        address = page.url
        await card.get_by_role("button", name="Retry").click()
        await expect(page.locator(".message.assistant").last).to_contain_text("Oslo")
        await page.reload()
        await expect(lines).to_have_count(2)  # also of the turn that the fork has copied
        await expect(lines.first.locator("summary")).to_contain_text("42 tokens")
        await lines.first.locator("summary").click()
        await expect(lines.first.locator(".thinking")).to_contain_text("I look it up.")
        copy_of_a_turn = page.url.rpartition("/")[2]
        await page.get_by_role("button", name="Retry").last.click()
        await expect(page.locator(".message.assistant").last).to_contain_text("Bern")
        await page.reload()
        await lines.first.locator("summary").click()  # a copy of a copy
        await expect(lines.first.locator(".thinking")).to_contain_text("I look it up.")
        await expect(lines).to_have_count(2)
        await expect(page.locator(".message.assistant")).to_have_count(2)
        copy_of_copy = page.url
        await page.goto(address)
        await expect(lines).to_have_count(3)
        await page.get_by_role("button", name="Edit").last.click()
        await page.get_by_role("textbox", name="Edit").fill("Four")
        await page.get_by_role("button", name="Send again").click()
        await expect(page.locator(".message.assistant").last).to_contain_text("Cork")
        copy = page.url
        await page.goto(address)
        await expect(lines).to_have_count(3)
        await (
            server.app_state.run_manager.journal.aclose()
        )  # the events are gone, which no script may report as an error
        await page.reload()
        await lines.first.locator("summary").click()
        await expect(lines.first.locator(".step-title")).to_have_text(["begin", "LLM:Desk", "Message:Reply"])
        await expect(lines.first.locator(".thinking")).to_contain_text("I look it up.")
        await expect(lines.first).to_contain_text("The server no longer has the events of this run.")
        await expect(card.get_by_role("heading")).to_have_text("LLM:Desk failed")
        await lines.first.get_by_role("button", name="Show run").click()
        await page.get_by_role("tab", name="Run").click()
        rows = ["begin", "LLM:Desk → It is in Hamburg.", "Message:Reply → It is in Hamburg."]
        await expect(page.locator(".timeline .words")).to_have_text(rows)
        await page.locator(".timeline .line").nth(1).click()
        drawer = page.locator(".drawer")
        await expect(drawer.get_by_role("heading", name="Outputs")).to_be_visible()
        await expect(drawer).to_contain_text("The server no longer has the inputs of this node.")
        await drawer.get_by_role("button", name="Show values").click()
        await expect(page.locator(".step-name")).to_contain_text("After LLM:Desk")
        loaded = asyncio.Event()

        async def hold(route: Route) -> None:
            await loaded.wait()
            await route.continue_()

        await page.route("**/history?*", hold)
        await page.reload()
        await lines.first.locator("summary").click()
        await lines.first.get_by_role("button", name="Show run").click()
        await page.get_by_role("tab", name="Graph").click()
        await page.locator("[data-node='LLM:Desk']").click()
        await drawer.get_by_role("button", name="Show values").click()
        loaded.set()
        await expect(page.locator(".step-name")).to_contain_text("After LLM:Desk")
        await page.unroute("**/history?*")
        agent, origin = address.split("/")[-2:]
        await page.goto("about:blank")  # which asks for nothing that is deleted
        for one in (origin, copy_of_a_turn):  # what copies show of them stays
            deleted = await server.client.delete(f"{server.url}/native/v1/agents/{agent}/sessions/{one}")
            assert deleted.is_success
        for fork, count in ((copy_of_copy, 2), (copy, 3)):
            await page.goto(fork)
            await expect(lines).to_have_count(count)
            await lines.first.locator("summary").click()
            await expect(lines.first.locator(".thinking")).to_contain_text("I look it up.")
        await expect(card.get_by_role("heading")).to_have_text("LLM:Desk failed")
        await lines.first.get_by_role("button", name="Show run").click()
        await expect(page.locator("[data-node='LLM:Desk']")).to_have_attribute("data-status", "done")


async def test_a_turn_that_is_stopped_goes_on(browser: Browser, tmp_path: Path) -> None:
    replies = [Reply(chunks=["Once upon"], hangs=True), Reply(text="Once upon a time.")]
    async with start_app(tmp_path, replies) as server, visit(browser, server.url, server.key) as shown:
        page = shown.page
        await open_agent(server, page, DESK)
        picture: FilePayload = {"name": "map.png", "mimeType": "image/png", "buffer": PNG}
        notes: FilePayload = {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"x"}
        await page.get_by_label("Attach files").set_input_files([picture, notes])
        await expect(page.locator(".attached img")).to_have_js_property("naturalWidth", 1)
        await page.get_by_role("button", name="Remove: notes.txt").click()
        await ask(page, "A story")
        await expect(page.locator(".message.user")).to_contain_text("map.png")
        await expect(page.locator(".message.user")).not_to_contain_text("notes.txt")
        await expect(page.locator(".message.assistant")).to_contain_text("Once upon")
        state = page.locator("[data-node='LLM:Desk'] .state")
        await expect(state).to_contain_text(re.compile(r"[3-9] s|\d\d s"))
        await page.reload()
        await expect(state).to_contain_text(" s")
        counted = "(state) => Date.now() - Number(state.getAttribute('data-since')) >= 3000"
        assert await state.evaluate(counted)  # since the node has begun, not since the reload
        await page.get_by_role("button", name="Stop").click()
        await expect(page.locator(".turn-note")).to_contain_text("Stopped")
        await expect(page.locator("[data-node='LLM:Desk']")).to_have_attribute("data-status", "stopped")
        await expect(page.get_by_role("alert")).to_have_count(0)
        await page.reload()
        await page.get_by_role("button", name="Continue").click()
        await expect(page.locator(".message.assistant .markdown").last).to_have_text("Once upon a time.")
        await page.reload()
        await expect(page.locator(".message.assistant .markdown")).to_have_text(["Once upon", "Once upon a time."])
        await expect(page.locator(".turn-note")).to_have_count(0)


async def test_files_are_dropped_and_pasted_and_wait_for_the_server(browser: Browser, tmp_path: Path) -> None:
    give = """([type, name]) => {
        const event = new Event(type, { bubbles: true, cancelable: true });
        const data = new DataTransfer();
        data.items.add(new File(["hidden"], name));
        event[type === "paste" ? "clipboardData" : "dataTransfer"] = data;
        document.querySelector(".composer textarea").dispatchEvent(event);
    }"""
    async with (
        start_app(tmp_path, [Reply(text="Read."), Reply(text="Read again.")]) as server,
        visit(browser, server.url, server.key) as shown,
    ):
        page = shown.page
        await open_agent(server, page, READER)
        for kind, name in (("drop", "a.txt"), ("paste", "b.txt")):
            await page.evaluate(give, [kind, name])
            await expect(page.locator(".attached li").last).to_contain_text(name)
        await page.route("**/runs?*", lambda route: route.abort())
        await ask(page, "Too early")
        await expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
        await expect(page.get_by_role("textbox", name="Your message")).to_have_value("Too early")
        await expect(page.locator(".attached li")).to_have_count(2)
        await expect(page.locator(".message")).to_have_count(0)
        await page.unroute("**/runs?*")
        await expect(page.get_by_role("alert")).to_have_count(0)  # it is back
        await page.context.set_offline(True)
        await page.evaluate("dispatchEvent(new Event('focus'))")
        away = page.locator(".chat").get_by_role("status").filter(has_text="The server cannot be reached")
        await expect(away).to_be_visible()
        await ask(page, "What is in them?")
        await expect(page.get_by_role("textbox", name="Your message")).to_have_value("What is in them?")
        await page.context.set_offline(False)
        await expect(away).to_have_count(0)
        await page.get_by_role("button", name="Send").click()
        await expect(page.locator(".message.assistant")).to_contain_text("Read.")
        for _ in range(2):
            await expect(page.locator(".message.user .file")).to_have_text([" a.txt", " b.txt"])
            await page.reload()
        await page.get_by_role("button", name="Retry").click()
        await expect(page.locator(".message.assistant")).to_contain_text("Read again.")
        await expect(page.locator(".message.user .file")).to_have_text([" a.txt", " b.txt"])
        first, second = (request.messages[-1]["content"] for _, request in server.model.requests)
        assert first == second
        assert first.count("hidden") == 2

        await page.route("**/runs/*", lambda route: route.abort())
        await page.get_by_role("button", name="Edit", exact=True).click()
        edited = page.get_by_role("textbox", name="Edit")
        low = await edited.evaluate("(box) => box.clientHeight")
        await edited.fill("Edited\naway\nand\nlonger")
        assert await edited.evaluate("(box) => box.clientHeight") > low + 30
        await edited.fill("Edited away")
        await page.get_by_role("button", name="Send again").click()
        await expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
        await expect(page.get_by_role("textbox", name="Edit")).to_have_value("Edited away")
        await page.unroute("**/runs/*")

        await page.get_by_role("button", name="New conversation").click()
        await page.route("**/sessions/*", lambda route: route.abort())
        await page.locator(".sessions li a").first.click()
        await expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
        await expect(page.get_by_role("button", name="Send")).to_be_disabled()
        await page.unroute("**/sessions/*")
        await expect(page.locator(".message.assistant")).to_contain_text("Read")
        shown.expected.append("net::ERR_")
