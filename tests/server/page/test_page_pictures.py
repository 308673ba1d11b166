"""The program that takes the pictures of the page plays them."""

from pathlib import Path

from playwright.async_api import Browser

from tests.fakes.browsers import needs_chromium
from tests.harness.page_pictures import SCENES, add_agents, show
from tests.harness.page_stage import set_up

pytestmark = needs_chromium


async def test_the_views_of_the_pictures_are_reached(browser: Browser, tmp_path: Path) -> None:
    async with set_up(tmp_path, pace=0) as stage:
        await add_agents(stage)
        for name in ("needs", "node"):
            page = await show(stage, browser, SCENES[name])
            assert await page.screenshot()
            await page.context.close()
