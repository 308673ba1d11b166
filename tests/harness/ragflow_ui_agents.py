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
MESSAGE_MS = 8000
"""The time after which a message of the page has gone."""
UPLOADED_TEXT = "milk and bread"
SHOP = "http://shop.example"
"""A site that embeds an agent."""
_SHOP_PAGE = """<!doctype html>
<title>Shop</title>
<iframe id="button" src="WIDGET" width="100" height="100"></iframe>
<iframe id="chat" width="380" height="500"></iframe>
<script>
addEventListener("message", ({data}) => {
  if (data.type === "CREATE_CHAT_WINDOW") document.getElementById("chat").src = data.src;
});
</script>
"""


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


async def open_widget(page: Any, url: str, agent_id: str, key: str) -> None:
    """Ask the floating chat that another site embeds: a frame with a button, and one with the chat. It has no forms."""
    widget = f"{url}/chats/widget?shared_id={agent_id}&from=agent&auth={key}&mode=master&streaming=true&muted=true"
    html = _SHOP_PAGE.replace("WIDGET", widget)

    async def show_shop(route: Any) -> None:
        await route.fulfill(content_type="text/html", body=html)

    await page.route(f"{SHOP}/", show_shop)
    await page.goto(f"{SHOP}/")
    await page.frame_locator("#button").locator("button").last.click()
    chat = page.frame_locator("#chat")
    await chat.locator("textarea").first.fill("A letter")
    await chat.locator("textarea").first.press("Enter")
    await chat.get_by_text("Note: A letter").first.wait_for()


async def open_chat_page(page: Any, url: str, key: str) -> None:
    """Open the page of a chat assistant, which this server does not have: the page says why."""
    await page.goto(f"{url}/chats/share?shared_id=0123&from=chat&auth={key}&locale=en")
    reason = page.get_by_text("use RAGFlow for chat assistants")
    await reason.first.wait_for()
    await page.wait_for_timeout(MESSAGE_MS)
    assert await reason.count() == 1, "the title stays when the message has gone"
