"""Take the pictures of the page for its documentation: ``python -m tests.harness.page_pictures FOLDER [NAME…]``.

A real Chromium shows the page of a real server with the fonts of the system. Needs ffmpeg. Without names, it
takes all pictures and the film.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import Literal, NamedTuple

from playwright.async_api import Browser, Page, ViewportSize, expect

from tests.harness.page_film import make_film
from tests.harness.page_stage import Stage, enter, example, lamp_shop, set_up
from tests.server.page.visits import ask, start_browser

FILM = "film"
EXAMPLES = ("report", "research_assistant", "deep_research")
EVEN_LETTERS = "--font-render-hinting=none"
WIDE: ViewportSize = {"width": 1360, "height": 765}
LIST: ViewportSize = {"width": 1360, "height": 1000}
PHONE: ViewportSize = {"width": 360, "height": 640}


async def add_agents(stage: Stage) -> None:
    """Add agents of several kinds, which have been used at different times."""
    await stage.add("Two sizes", example("order_form"), "Asks for a shirt and for shoes at the same time.")
    await stage.add("Orders", example("webhook"), "Takes orders from the shop's system and checks them.")
    await stage.add("Trip planner", example("trip_form"), "Plans a trip: city, days, interests, by train or not.")
    dataset = {"kb_ids": ["Handbook 2026"], "dataset_ids": ["Handbook 2026"]}
    canvas = example("handbook_agent", Retrieval=dataset, LLM={"llm_id": "qwen-max@Tongyi-Qianwen"})
    await stage.add("First days", canvas, "Answers what new colleagues ask.")
    canvas = example("deep_research", Agent={"strategy": "function_calling"})
    staff = await stage.add("Staff handbook", canvas, "Answers questions about vacation and travel, with sources.")
    shop = await stage.add("Lamp shop", lamp_shop(), "Answers customers: parcels, refunds, and the rest.")
    await stage.talk(shop, "Do you have a shop in Lisbon?", hours=2)
    await stage.talk(staff, "How many days of vacation do I have?", hours=26)


async def show_agents(page: Page) -> None:
    """Show the list."""
    await expect(page.locator(".card .facts").first).to_be_visible()


async def ask_for_parcel(page: Page) -> None:
    """Ask the delivery desk."""
    await answer(page, "Lamp shop", "Where is my parcel RL-2041?")


async def ask_for_refund(page: Page) -> None:
    """Ask the refund desk."""
    await answer(page, "Lamp shop", "My lamp arrived broken. Can I have my money back?")


async def run(page: Page) -> None:
    """Ask the agent with tools, and show its run."""
    await answer(page, "Staff handbook", "How many days of vacation do I have, and can I keep some?")
    await page.get_by_role("tab", name="Run").click()
    await page.mouse.move(0, 0)


async def node(page: Page) -> None:
    """Ask the delivery desk, and open its node."""
    await ask_for_parcel(page)
    await page.locator(".picture [data-node]", has_text="Delivery desk").click()
    await expect(page.locator(".drawer")).to_contain_text("Outputs")


async def need(page: Page) -> None:
    """Open an agent that lacks something."""
    await page.get_by_role("button", name="First days").click()
    await expect(page.locator(".opening .needs")).to_be_visible()


async def answer(page: Page, agent: str, question: str) -> None:
    """Open an agent, and ask it."""
    await page.get_by_role("button", name=agent).first.click()
    await ask(page, question)
    await expect(page.locator(".message.assistant").last).to_have_attribute("data-status", "succeeded")


class Scene(NamedTuple):
    """What a picture shows, and how large."""

    play: Callable[[Page], Awaitable[None]]
    size: ViewportSize = WIDE
    theme: Literal["light", "dark"] = "light"
    share: int = 50


SCENES = {
    "agents": Scene(show_agents, LIST),
    "needs": Scene(need, {"width": 1360, "height": 830}, share=40),
    "light": Scene(ask_for_parcel),
    "dark": Scene(ask_for_refund, theme="dark"),
    "phone": Scene(ask_for_parcel, PHONE),
    "run": Scene(run),
    "node": Scene(node, {"width": 1360, "height": 900}),
}


async def show(stage: Stage, browser: Browser, scene: Scene) -> Page:
    """Return the page as a picture shows it."""
    page = await enter(stage, browser, scene.size, scene.theme, scene.share)
    await scene.play(page)
    return page


async def take(stage: Stage, browser: Browser, scene: Scene, target: Path) -> None:
    """Write a picture, with few colours."""
    page = await show(stage, browser, scene)
    await asyncio.sleep(1)  # for the last movements
    picture = stage.folder / "picture.png"
    await page.screenshot(path=picture)
    await page.context.close()
    colours = "split[a][b];[a]palettegen=stats_mode=single[p];[b][p]paletteuse=dither=none"
    subprocess.run(["ffmpeg", "-y", "-loglevel", "error", "-i", picture, "-vf", colours, target], check=True)


async def write_pictures(folder: Path, names: Collection[str]) -> dict[str, float]:
    """Write the pictures and the film with these names. Return the seconds of the film, if it is one of them."""
    seconds: dict[str, float] = {}
    async with start_browser(EVEN_LETTERS) as browser:
        if FILM in names:
            with tempfile.TemporaryDirectory() as place:
                async with set_up(Path(place)) as stage:
                    seconds[FILM] = await make_film(stage, browser, folder / "page_film.gif")
        with tempfile.TemporaryDirectory() as place:
            async with set_up(Path(place), *EXAMPLES) as stage:
                await add_agents(stage)
                for name in (name for name in SCENES if name in names):
                    await take(stage, browser, SCENES[name], folder / f"page_{name}.png")
    return seconds


def main(folder: str, *names: str) -> None:
    """Write pictures, and print how large they are."""
    seconds = asyncio.run(write_pictures(Path(folder), names or [*SCENES, FILM]))
    sizes = {path.name: path.stat().st_size for path in sorted(Path(folder).glob("page_*"))}
    print(json.dumps({"seconds": seconds, "bytes": sizes}, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
