"""The pictures of the page can be taken."""

from pathlib import Path

from playwright.async_api import Browser

from tests.fakes.browsers import needs_chromium
from tests.harness.page_pictures import SCENES, add_agents, show
from tests.harness.page_stage import set_up

pytestmark = needs_chromium


async def test_each_picture_can_be_taken(browser: Browser, tmp_path: Path) -> None:
    async with set_up(tmp_path, pace=0) as stage:
        await add_agents(stage)
        for scene in SCENES.values():
            page = await show(stage, browser, scene)
            assert await page.screenshot()
            await page.context.close()
