"""Make the film of the page for the documentation: ``python -m tests.harness.page_film``. Needs ffmpeg.

A real Chromium shows the page of a real server. In the middle of a turn the server is killed and started again; the
page goes on by itself. Writes ``docs/page_run.gif``.
"""

import asyncio
import json
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from playwright.async_api import Page, async_playwright, expect

from ragflow_lg.adapters.browser.chromium_process import find_chromium
from ragflow_lg.server.devtools.mock_llm.rules import Reply, Rule, Rules, When
from tests.fakes.browsers import SMALL
from tests.fakes.mock_llm import MockLLM
from tests.server.http.app_server import canvas
from tests.server.replicas import Replica, start_replica

TARGET = Path(__file__).parents[2] / "docs" / "page_run.gif"
CITIES = {"Hamburg": "the harbour", "Bremen": "the market square", "Kiel": "the canal", "Jena": "the planetarium"}
FRAMES_PER_S = 5
LONGEST_WAIT_FRAMES = 15
"""A busy machine starts a server slowly: the film shows a few seconds of that."""


def plan_trip() -> dict[str, Any]:
    """Return a canvas that asks a model once for each city, and then for the whole answer."""
    outputs = {"notes": {"ref": "LLM:Note@content", "type": "Array<string>"}}
    dsl = canvas(
        ("begin", "Begin", {}, ["StringTransform:Cities"]),
        (
            "StringTransform:Cities",
            "StringTransform",
            {"method": "split", "split_ref": "sys.query", "delimiters": [", "]},
            ["Iteration:Cities"],
        ),
        (
            "Iteration:Cities",
            "Iteration",
            {"items_ref": "StringTransform:Cities@result", "max_concurrency": 0, "outputs": outputs},
            ["LLM:Trip"],
        ),
        ("IterationItem:Cities", "IterationItem", {}, ["LLM:Note"]),
        ("LLM:Note", "LLM", _model("Note: {IterationItem:Cities@item}"), []),
        ("LLM:Trip", "LLM", _model("Trip: {Iteration:Cities@notes}"), ["Message:Trip"]),
        ("Message:Trip", "Message", {"content": ["{LLM:Trip@content}"]}, []),
    )
    for name in ("IterationItem:Cities", "LLM:Note"):
        dsl["components"][name]["parent_id"] = "Iteration:Cities"
    titles = {"begin": "Which cities?", "StringTransform:Cities": "Cities", "Iteration:Cities": "For each city"}
    titles |= {"LLM:Note": "What to see", "LLM:Trip": "Write the trip", "Message:Trip": "Answer"}
    nodes = [{"id": name, "data": {"name": title}} for name, title in titles.items()]
    return {**dsl, "graph": {"nodes": nodes, "edges": []}}


def _model(prompt: str) -> dict[str, Any]:
    return {"llm_id": "m", "prompts": [{"role": "user", "content": prompt}], "outputs": {"content": {"type": "string"}}}


def scripted() -> Rules:
    """Return what the model answers, slowly enough to be watched."""
    notes = [
        Rule(when=When.model_validate({"user": f"Note: {city}"}), replies=[Reply(text=f"{city}: {sight}", delay_s=1.4)])
        for city, sight in CITIES.items()
    ]
    answer = "Three days by train:\n\n" + "".join(f"- **{city}**: {sight}\n" for city, sight in CITIES.items())
    return Rules(rules=[*notes, Rule(replies=[Reply(text=answer, cut_text=6, piece_delay_s=0.12)])])


class Camera:
    """Takes pictures of a page all the time, as files in a folder."""

    def __init__(self, page: Page, folder: Path) -> None:
        self.page = page
        self.folder = folder
        self.count = 0
        self.limit = 0
        """The number of pictures at which it waits; 0 for none."""

    async def run(self) -> None:
        """Take pictures until cancelled."""
        while True:
            start = asyncio.get_running_loop().time()
            if not self.limit or self.count < self.limit:
                await self.page.screenshot(path=self.folder / f"{self.count:04}.png")
                self.count += 1
            await asyncio.sleep(max(0.01, 1 / FRAMES_PER_S - (asyncio.get_running_loop().time() - start)))


async def play(page: Page, camera: Camera, settings: Path, first: Replica, address: str) -> None:
    """Ask, kill the server in the second round, start another, and wait for the answer."""
    await page.get_by_role("textbox", name="Your message").press_sequentially(", ".join(CITIES), delay=40)
    await page.get_by_role("button", name="Send").click()
    await expect(page.locator("[data-rounds]")).to_have_text("round 2", timeout=60_000)
    await asyncio.sleep(0.6)
    first.process.send_signal(signal.SIGKILL)
    await first.process.wait()
    await expect(page.get_by_role("status").first).to_be_visible(timeout=60_000)
    camera.limit = camera.count + LONGEST_WAIT_FRAMES
    second = await start_replica(settings, first.key, int(address.rpartition(":")[2]))
    camera.limit = 0
    try:
        done = page.locator(".message.assistant").last
        await expect(done).to_have_attribute("data-status", "succeeded", timeout=60_000)
        await asyncio.sleep(2)
    finally:
        second.process.kill()
        await second.process.wait()
        await second.client.aclose()


async def film(folder: Path) -> None:
    """Write the pictures of the film."""
    async with MockLLM(rules=scripted()) as llm, async_playwright() as playwright:
        settings = folder / "settings.toml"
        settings.write_text(
            f'checkpoints = "sqlite:///{folder}/sessions.db"\n[providers.Mock]\nbase_url = "{llm.base_url}"\n'
            f'[server]\ndatabase = "sqlite:///{folder}/server.db"\nfiles = "{folder}/files"\n'
        )
        first = await start_replica(settings, "")
        address = str(first.client.base_url).removesuffix("/api/v1/")
        made = (await first.client.post("/agents", json={"title": "Trips", "dsl": plan_trip()})).json()
        browser = await playwright.chromium.launch(executable_path=find_chromium(SMALL), args=["--no-sandbox"])
        page = await browser.new_page(viewport={"width": 1200, "height": 560}, color_scheme="light")
        await page.goto(f"{address}/#key={first.key}&agent={made['data']['id']}")
        await page.locator(".picture svg").wait_for()
        camera = Camera(page, folder)
        running = asyncio.create_task(camera.run())
        await play(page, camera, settings, first, address)
        running.cancel()
        await browser.close()
        await first.client.aclose()


def main() -> None:
    """Write the film and print its length and size."""
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(film(Path(name)))
        count = len(list(Path(name).glob("*.png")))
        colours = "split[a][b];[a]palettegen=max_colors=200[p];[b][p]paletteuse=dither=none"
        pictures = ["-framerate", str(FRAMES_PER_S), "-i", f"{name}/%04d.png"]
        filters = ["-vf", f"scale=960:-1:flags=lanczos,{colours}", "-loop", "0"]
        subprocess.run(["ffmpeg", "-y", "-loglevel", "error", *pictures, *filters, TARGET], check=True)
    print(json.dumps({"seconds": count / FRAMES_PER_S, "bytes": TARGET.stat().st_size}))


if __name__ == "__main__":
    main()
