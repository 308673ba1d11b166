"""Steps of a session in RAGFlow's front end: agents from files, single components, uploads, and shared pages."""

import json
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).parents[2] / "tests" / "fixtures" / "ragflow_ui"
IMPORTED = "Notes"
CREATED = "Empty"
UPLOAD = "list.txt"
FORGET_MS = 2000
"""The page keeps the events of a turn for a second after its end. The next ones would be added to them."""
UPLOADED_TEXT = "milk and bread"


async def create_agent(page: Any, url: str) -> None:
    """Create an agent without a file."""
    await page.goto(f"{url}/agents")
    await page.get_by_test_id("create-agent").click()
    await page.get_by_test_id("agent-create-menu").get_by_role("menuitem").first.click()
    await page.get_by_test_id("agent-create-modal").get_by_test_id("agent-name-input").fill(CREATED)
    await page.get_by_test_id("agent-save").click()
    await page.get_by_test_id("agents-list").get_by_text(CREATED).first.wait_for()


async def import_agent(page: Any, url: str) -> None:
    """Create an agent from a JSON file, and open it."""
    await page.goto(f"{url}/agents")
    await page.get_by_test_id("create-agent").click()
    await page.get_by_test_id("agent-import-json").click()
    dialog = page.get_by_test_id("agent-import-modal")
    await dialog.get_by_test_id("agent-name-input").fill(IMPORTED)
    await dialog.locator("input[type=file]").set_input_files(FIXTURES / "notes.json")
    await page.get_by_test_id("agent-import-save").click()
    await page.get_by_test_id("agents-list").get_by_text(IMPORTED).first.click()
    await page.get_by_test_id("agent-detail").wait_for()


async def test_component(page: Any) -> None:
    """Run a single component with a value."""
    await page.get_by_text("Label", exact=True).first.click()
    await page.locator("button:has(svg.lucide-circle-play)").last.click()
    sheet = page.get_by_role("dialog").filter(has_text="Test run")
    await sheet.locator("textarea, form input:not([aria-hidden])").first.fill("buy milk")
    await sheet.get_by_role("button", name="Run").click()
    await sheet.get_by_text("Note: buy milk").first.wait_for()
    await page.keyboard.press("Escape")


async def export_agent(page: Any) -> None:
    """Download the agent as a JSON file."""
    await page.reload()
    await page.get_by_role("button", name="Management").click()
    async with page.expect_download() as download:
        await page.get_by_text("Export", exact=True).first.click()
    file = await (await download.value).path()
    components = json.loads(Path(file).read_text("utf-8"))["components"]
    assert components["StringTransform:Label"]["downstream"] == ["Message:Answer"]


async def upload_file(page: Any) -> None:
    """Attach a file to a message; the answer contains its text."""
    await page.get_by_test_id("agent-run").click()
    chat = page.get_by_test_id("agent-run-chat")
    file = {"name": UPLOAD, "mimeType": "text/plain", "buffer": UPLOADED_TEXT.encode()}
    await chat.locator("input[type=file]").first.set_input_files(file)
    await page.wait_for_timeout(1500)
    await chat.locator("textarea").first.fill("buy")
    await chat.locator("textarea").first.press("Enter")
    await page.get_by_text(UPLOADED_TEXT).first.wait_for()


async def open_shared_page(page: Any, url: str, agent_id: str, key: str) -> None:
    """Ask, and answer a form, on the page that other sites embed. It knows only its key."""
    await page.goto(f"{url}/agent/share?shared_id={agent_id}&from=agent&auth={key}&visible_avatar=1&locale=en")
    await page.get_by_text("What shall we send?").first.wait_for()
    await page.locator("textarea").first.fill("A parcel")
    await page.locator("textarea").first.press("Enter")
    await page.get_by_text("Which size is the parcel?").first.wait_for()
    await page.wait_for_timeout(FORGET_MS)
    await page.locator("form input[type=text], form input:not([type])").first.fill("42")
    await page.get_by_role("button", name="Submit").click()
    await page.get_by_text("A parcel, size 42.").first.wait_for()
