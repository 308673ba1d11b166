"""Take the pictures of the page for the documentation: ``python -m tests.harness.page_pictures``.

A real Chromium shows the page of a real server, whose model answers by a script. Writes ``docs/page_light.png`` and
``docs/page_dark.png``.
"""

import asyncio
import json
import tempfile
from pathlib import Path
from typing import Literal

from playwright.async_api import async_playwright, expect

from ragflow_lg.integrations.browser.chromium_process import find_chromium
from tests.fakes.browsers import SMALL
from tests.fakes.services import Reply
from tests.server.http.app_server import start_app

ROOT = Path(__file__).parents[2]
CANVAS = ROOT / "examples" / "customer_service_router.json"
ANSWER = """Your parcel **RL-2041** left Hamburg this morning.

| when | where |
| --- | --- |
| 07:40 | Hamburg, sorting centre |
| 09:15 | on the way to Bremen |

It arrives *tomorrow before noon*.
"""


async def take(theme: Literal["light", "dark"]) -> Path:
    """Ask the example's canvas a question and write the picture."""
    target = ROOT / "docs" / f"page_{theme}.png"
    replies = [Reply(text="Delivery"), Reply(text=ANSWER, reasoning="The customer asks about a parcel.")]
    with tempfile.TemporaryDirectory() as folder:
        async with start_app(Path(folder), replies) as server, async_playwright() as playwright:
            await server.agent(json.loads(CANVAS.read_text("utf-8")), "Customer service")
            browser = await playwright.chromium.launch(executable_path=find_chromium(SMALL), args=["--no-sandbox"])
            page = await browser.new_page(viewport={"width": 1360, "height": 760}, color_scheme=theme)
            await page.goto(f"{server.url}/#key={server.key}")
            await page.get_by_role("button", name="Customer service").click()
            await page.get_by_role("textbox", name="Your message").fill("Where is my parcel RL-2041?")
            await page.get_by_role("button", name="Send").click()
            await expect(page.locator(".message.assistant")).to_have_attribute(
                "data-status", "succeeded", timeout=60_000
            )
            await page.locator("[data-node='Categorize:SortRequest']").click()
            await page.mouse.move(0, 0)
            await page.screenshot(path=target)
            await browser.close()
    return target


async def main() -> None:
    """Write both pictures and print their sizes."""
    for theme in ("light", "dark"):
        path = await take(theme)
        print(path.relative_to(ROOT), path.stat().st_size)


if __name__ == "__main__":
    asyncio.run(main())
