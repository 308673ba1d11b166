"""The conversation in a real Chromium: sources, files, images, speech, Begin's form, and messages sent again."""

import io
import json
import wave
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from playwright.async_api import Browser, Page, expect

from ragflow_lg.integrations.code.programs import CodeResult, CodeSandbox
from ragflow_lg.services.artifacts import Artifact
from ragflow_lg.services.chat import NO_USAGE
from ragflow_lg.services.speech import Speech, SpokenText
from tests.fakes.browsers import needs_chromium
from tests.fakes.code import ScriptedSandbox
from tests.fakes.images import PNG
from tests.fakes.knowledge import FakeKnowledge, chunk
from tests.fakes.services import Reply
from tests.server.http.app_server import CITING, MODEL, AppServer, canvas, start_app
from tests.server.page.visits import HOSTILE, OF_TALK, ask, choose_action, open_agent, visit

pytestmark = needs_chromium

PLACE = "(chunk) => import(new URL('page/js/citations.js', document.baseURI)).then(({placeOf}) => placeOf(chunk))"
CHART = canvas(
    ("begin", "Begin", {}, ["CodeExec:0"]),
    ("CodeExec:0", "CodeExec", {"script": "x", "outputs": {"r": {"type": "Any"}}}, ["Message:0"]),
    ("Message:0", "Message", {"content": ["Your chart:\n\n{CodeExec:0@attachments}"]}, []),
)
TRIP = canvas(
    (
        "begin",
        "Begin",
        {
            "prologue": "Where to **travel**?",
            "inputs": {
                "city": {"name": "City", "type": "line"},
                "days": {"name": "Days", "type": "integer", "optional": True},
                "notes": {"name": "Notes", "type": "file", "optional": True},
            },
        },
        ["Message:0"],
    ),
    ("Message:0", "Message", {"content": ["{begin@city} for {begin@days}: {sys.query} {begin@notes}"]}, []),
)


class Whistle:
    """A voice that says everything as a tenth of a second of silence."""

    can_speak = True
    can_transcribe = False

    async def speak(self, text: str, tts_id: str) -> SpokenText:
        """Return a WAV file."""
        sound = io.BytesIO()
        with wave.open(sound, "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(8000)
            file.writeframes(bytes(1600))
        return SpokenText(sound.getvalue(), NO_USAGE)

    async def transcribe(self, name: str, mime_type: str, content: bytes) -> str:
        """Refuse the file."""
        raise AssertionError


def replace_services(server: AppServer, **services: Any) -> None:
    state = server.app_state
    server.app_state = replace(state, services=replace(state.services, **services))
    server.app.state.app_state = server.turns._app_state = server.app_state


async def texts(page: Page, role: str) -> list[str]:
    shown = page.locator(f".message.{role} :is(.plain, .markdown)")
    return [text.strip() for text in await shown.all_inner_texts()]


async def test_a_citation_opens_its_chunk_also_in_a_stored_conversation(browser: Browser, tmp_path: Path) -> None:
    chunks = [
        chunk("c-tea", "Tea."),
        chunk("c-rice", f"Rice needs water. {HOSTILE}", f"{HOSTILE}.pdf", positions=[[3, 0, 0, 7, 9]]),
    ]
    replies = [Reply(text="As written [ID:60], and [ID:61].")]
    knowledge = FakeKnowledge(chunks=chunks)
    async with (
        start_app(tmp_path, replies, knowledge=knowledge) as server,
        visit(browser, server.url, server.key) as shown,
    ):
        page = shown.page
        agent = await open_agent(server, page, CITING)
        await ask(page, "rice")
        chip = page.locator(".piece [data-cite]")
        await expect(chip).to_have_text("1")
        number = await chip.get_attribute("data-cite")
        for _ in range(2):
            await chip.focus()
            await expect(page.locator(".cite-card")).to_contain_text(f"{HOSTILE}.pdf")
            await page.keyboard.press("Escape")
            await expect(page.locator(".cite-card")).to_have_count(0)
            await expect(page.locator(".sources button")).to_have_text([f"1 {HOSTILE}.pdf · p. 3"])
            await chip.click()
            source = page.get_by_role("complementary")
            await expect(source).to_contain_text("Rice needs water.")
            await expect(source.get_by_role("heading")).to_have_text(f"{HOSTILE}.pdf · p. 3")
            await page.reload()
            await expect(chip).to_have_attribute("data-cite", str(number))
        async with page.expect_download() as waiting:
            await choose_action(page, "Export as Markdown", OF_TALK)
        exported = (await (await waiting.value).path()).read_text()
        assert f"[ID:{number}]" in exported
        assert "\\<script\\>" in exported
        assert await page.evaluate("window.hacked") is None
        assert agent in page.url
        for content, place in (
            ("Care > Tea\nOver > 30 degrees,\nwater.", "Tea"),
            ("Over > 30 degrees,\nwater.", "lines 4–5"),
        ):
            shown_place = await page.evaluate(PLACE, {"content": content, "positions": [[0, 0, 0, 4, 5]]})
            assert shown_place == f"Source · {place}"


async def test_images_and_files_of_programs_are_shown_and_saved(browser: Browser, tmp_path: Path) -> None:
    async with start_app(tmp_path) as server, visit(browser, server.url, server.key) as shown:
        page = shown.page
        files = (Artifact("chart.png", "image/png", PNG), Artifact("table.csv", "text/csv", b"a,b\n1,2\n"))
        replace_services(server, integrations={CodeSandbox: ScriptedSandbox(CodeResult("", "", 0, True, 1, files))})
        await open_agent(server, page, CHART)
        await ask(page, "Draw")
        image = page.locator(".message.assistant img")
        await expect(image).to_have_js_property("naturalWidth", 1)
        assert (await image.get_attribute("src") or "").startswith("blob:")
        async with page.expect_download() as waiting:
            await page.locator(".message.assistant a", has_text="table.csv").click()
        assert (await (await waiting.value).path()).read_bytes() == b"a,b\n1,2\n"


async def test_downloads_of_a_message_are_saved_under_harmless_names(browser: Browser, tmp_path: Path) -> None:
    async with start_app(tmp_path) as server, visit(browser, server.url, server.key) as shown:
        page, name = shown.page, f"../{HOSTILE}.txt"
        agent = await server.agent(MODEL, "Keeper")
        stored = await server.post(f"/agents/{agent}/upload", files={"file": ("a.txt", b"words")})
        info = {"doc_id": stored["data"]["id"], "filename": name, "mime_type": "text/plain"}
        dsl = canvas(("begin", "Begin", {}, ["Message:0"]), ("Message:0", "Message", {"content": ["{sys.query}"]}, []))
        await open_agent(server, page, dsl)
        await ask(page, json.dumps(info))
        async with page.expect_download() as waiting:
            await page.get_by_role("button", name="Download").click()
        saved = await waiting.value
        assert (await saved.path()).read_bytes() == b"words"
        assert not set(saved.suggested_filename) & set('<>/\\:"|?*')
        assert await page.evaluate("window.hacked") is None


async def test_answers_are_spoken(browser: Browser, tmp_path: Path) -> None:
    dsl = canvas(
        ("begin", "Begin", {}, ["Message:0"]),
        (
            "Message:0",
            "Message",
            {"content": ["The first sentence is here. The second one ends."], "auto_play": True},
            [],
        ),
    )
    async with start_app(tmp_path) as server, visit(browser, server.url, server.key) as shown:
        page = shown.page
        replace_services(server, integrations={Speech: Whistle()})
        await open_agent(server, page, dsl)
        await ask(page, "Speak")
        player = page.get_by_label("Spoken answer")
        await expect(player).to_have_attribute("data-sentence", "3")  # both have been played
        assert await page.evaluate("document.querySelector('audio').error") is None
        await page.get_by_role("button", name="From the start").click()
        await expect(player).to_have_attribute("data-sentence", "3")


async def test_a_conversation_begins_with_a_greeting_and_a_form(browser: Browser, tmp_path: Path) -> None:
    async with start_app(tmp_path) as server, visit(browser, server.url, server.key) as shown:
        page = shown.page
        await open_agent(server, page, TRIP)
        await expect(page.locator(".prologue strong")).to_have_text("travel")
        form = page.get_by_role("group", name="Inputs")
        await page.get_by_role("textbox", name="Your message").fill("Plan it")
        await page.get_by_role("button", name="Send").click()
        await expect(page.locator(".message.user")).to_have_count(0)  # the city is missing
        await form.get_by_label("City").fill("Rome")
        await form.get_by_label("Days").fill("3")
        await form.get_by_label("Notes").set_input_files(
            [{"name": "notes.txt", "mimeType": "text/plain", "buffer": b"By train."}]
        )
        await page.get_by_role("button", name="Send").click()
        await expect(page.locator(".message.assistant").last).to_contain_text("Rome for 3: Plan it")
        await expect(page.locator(".message.assistant").last).to_contain_text("By train.")
        await ask(page, "And then?")  # the values stay
        await expect(page.locator(".message.assistant").last).to_contain_text("Rome for 3: And then?")
        await page.get_by_role("button", name="Inputs").click()
        await form.get_by_label("City").fill("Oslo")
        await ask(page, "Or north?")
        await expect(page.locator(".message.assistant").last).to_contain_text("Oslo for 3: Or north?")


async def test_messages_are_edited_and_sent_again_in_new_conversations(browser: Browser, tmp_path: Path) -> None:
    replies = [Reply(text=word) for word in ("One.", "Two.", "Zwei.", "Uno.", "Due.")]
    async with start_app(tmp_path, replies) as server, visit(browser, server.url, server.key) as shown:
        page = shown.page
        await open_agent(server, page, MODEL)
        for question, answer in (("First", "One."), ("Second", "Two.")):
            await ask(page, question)
            await expect(page.locator(".message.assistant").last).to_contain_text(answer)
        first = page.url
        await page.get_by_role("button", name="Edit").last.click()
        box = page.get_by_role("textbox", name="Edit")
        await box.press("Escape")
        await expect(box).to_have_count(0)
        await expect(page.get_by_role("button", name="Edit").last).to_be_focused()
        await page.keyboard.press("Enter")
        await box.fill("Second in German")
        await box.press("Enter")
        await expect(page.locator(".message.assistant").last).to_contain_text("Zwei.")
        assert await texts(page, "user") == ["First", "Second in German"]
        assert await texts(page, "assistant") == ["One.", "Zwei."]
        assert [message["role"] for message in server.model.requests[-1][1].messages].count("user") == 2
        await expect(page.locator(".sessions li")).to_have_count(2)
        await page.reload()
        await expect(page.locator(".message")).to_have_count(4)
        assert await texts(page, "user") == ["First", "Second in German"]
        await page.get_by_role("button", name="Retry").first.click()
        await expect(page.locator(".message.assistant").last).to_contain_text("Uno.")
        assert await texts(page, "user") == ["First"]
        await page.get_by_role("button", name="Retry").last.click()
        await expect(page.locator(".message.assistant").last).to_contain_text("Due.")
        await expect(page.locator(".sessions .talk-name")).to_have_text(
            ["↳ First", "↳ First", "↳ Second in German", "First"]
        )
        await expect(page.locator(".sessions .excerpt")).to_have_count(2)  # their times keep equal names apart
        await page.goto(first)
        await expect(page.locator(".message")).to_have_count(4)
        assert await texts(page, "assistant") == ["One.", "Two."]


async def test_conversations_are_searched_by_name_and_text_and_exported(browser: Browser, tmp_path: Path) -> None:
    replies = [Reply(text="Bananas are yellow."), Reply(text=f"Plums {HOSTILE}")]
    async with start_app(tmp_path, replies) as server, visit(browser, server.url, server.key) as shown:
        page = shown.page
        await open_agent(server, page, MODEL, HOSTILE[:60])
        await ask(page, "A fruit")
        await expect(page.get_by_text("Bananas are yellow.")).to_be_visible()
        await page.get_by_role("button", name="New conversation").click()
        await ask(page, HOSTILE)
        await expect(page.locator(".message.assistant").last).to_contain_text("Plums")
        await expect(page.locator(".sessions li")).to_have_count(2)
        search = page.get_by_role("searchbox", name="Search conversations")
        await search.fill("yellow")
        await expect(page.locator(".sessions .talk-name")).to_have_text(["A fruit"])
        await search.fill("nowhere")
        await expect(page.get_by_text("Nothing was found.")).to_be_visible()
        await search.fill("")
        async with page.expect_download() as waiting:
            await choose_action(page, "Export as JSON", OF_TALK)
        saved = await waiting.value
        whole = json.loads((await saved.path()).read_text())
        assert [message["content"] for message in whole["messages"]] == [HOSTILE, f"Plums {HOSTILE}"]
        assert whole["agent"]["title"] == HOSTILE[:60]
        assert not set(saved.suggested_filename) & set('<>/\\:"|?*')
        assert await page.evaluate("window.hacked") is None


async def test_snippets_have_the_address_and_keys_on_request(browser: Browser, tmp_path: Path) -> None:
    async with start_app(tmp_path) as server, visit(browser, server.url, server.key) as shown:
        page = shown.page
        agent = await open_agent(server, page, MODEL)
        await choose_action(page, "Use it from programs")
        panel = page.get_by_role("region", name="Use it from programs")
        await expect(panel.get_by_label("curl", exact=True)).to_contain_text(f"curl {server.url}/api/v1/")
        for code in ("ragflow-lg keys create NAME", "accent", "[server] frame_origins"):
            await expect(panel.locator("code").get_by_text(code, exact=True)).to_be_visible()
        assert server.key not in await panel.inner_text()
        await panel.get_by_label("Fill in the key of this page").check()
        for name in ("curl", "RAGFlow SDK", "OpenAI"):
            await expect(panel.get_by_label(name, exact=True)).to_contain_text(server.key)
        await panel.get_by_role("button", name="Fill in a new key").click()
        await expect(panel).to_contain_text(f"{server.url}/chat/{agent}#auth=beta-")
        keys = (await server.get(f"{server.url}/native/v1/keys"))["keys"]
        assert [key["agents"] for key in keys] == [[agent]]


async def test_warnings_are_counted_and_an_error_names_its_node(browser: Browser, tmp_path: Path) -> None:
    search: tuple[str, str, dict[str, str], list[str]]
    search = ("Search:0", "Retrieval", {"retrieval_from": "dataset", "query": "x"}, [])
    async with start_app(tmp_path) as server, visit(browser, server.url, server.key) as shown:
        file = tmp_path / "search.json"
        file.write_text(json.dumps(canvas(("begin", "Begin", {}, ["Search:0"]), search)))
        await shown.page.set_input_files("input[type=file]", file)
        await expect(shown.page.get_by_text("It can run.")).to_be_visible()
        await expect(shown.page.get_by_role("img", name="Warning")).to_have_count(1)
        await shown.page.get_by_role("button", name="Add the agent").click()
        await ask(shown.page, "Go")
        card = shown.page.get_by_role("alert")
        await expect(card.get_by_role("heading")).to_have_text("Search:0 failed")
        await expect(card).to_contain_text("No dataset is selected.")


async def test_a_demo_says_so_above_the_conversation(browser: Browser, tmp_path: Path) -> None:
    async with start_app(tmp_path) as server, visit(browser, server.url, server.key) as shown:
        sign = shown.page.get_by_text("The demo model answers.")
        await open_agent(server, shown.page, TRIP)
        await expect(shown.page.get_by_text("Where to travel?")).to_be_visible()
        await expect(sign).to_have_count(0)
        state = server.app_state
        server.app_state = replace(state, services=replace(state.services, is_demo=True))
        server.app.state.app_state = server.turns._app_state = server.app_state
        await shown.page.reload()
        await expect(sign).to_be_visible()
        await shown.page.get_by_label("City").fill("Rome")
        await ask(shown.page, "Go")
        await expect(shown.page.locator(".message.assistant small")).to_have_text("demo")
