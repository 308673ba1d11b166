"""The film of the page: a canvas is dropped, answers, goes on after ``kill -9``, and runs again with another value."""

import asyncio
import base64
import json
import subprocess
import time
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Locator, Page, ViewportSize, expect

from tests.harness.page_stage import Stage, enter, lamp_shop

SIZE: ViewportSize = {"width": 1360, "height": 765}
FRAMES_PER_S = 8
LONGEST_S = 60
"""A film that a busy machine has made longer is played faster."""
MIDDLE = (680, 360)
OVERLAY = """() => {
  const make = (id, css) => {
    const made = document.documentElement.appendChild(document.createElement("div"));
    made.id = id;
    made.popover = "manual"; // above dialogs
    made.style.cssText = `position: fixed; margin: 0; padding: 0; border: 0; pointer-events: none; ${css}`;
    made.showPopover();
    return made;
  };
  make("film-caption", `inset: auto 0 0; width: auto; height: 44px; line-height: 44px; text-align: center; color: #fff;
    background: #14171e; font-size: 19px; font-weight: 600;`);
  const arrow = make("film-arrow", `inset: 0 auto auto 0; background: none; overflow: visible; color: #1b1f27;
    transition: transform 450ms ease-in-out; transform: translate(680px, 800px)`);
  arrow.innerHTML = `<svg width="22" height="22" viewBox="0 0 22 22"><path d="M3 2l14 8-6.5 1.6L7 18z" fill="#14171e"
    stroke="#fff" stroke-width="1.5" stroke-linejoin="round"/></svg><b></b>`;
  arrow.lastChild.style.cssText = `display: none; position: absolute; left: 16px; top: 18px; padding: 8px 14px;
    border-radius: 8px; background: #fff; border: 1px solid #b9c0cc; white-space: nowrap; box-shadow: 0 4px 14px #0003`;
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(".page, #app > .agents { height: calc(100dvh - 44px) }");
  document.adoptedStyleSheets.push(sheet);
}"""
"""The line at the bottom, and an arrow that shows where the mouse is, with the file that it drags."""
SAY = """text => {
  for (const id of ["film-caption", "film-arrow"]) {
    document.getElementById(id).hidePopover();
    document.getElementById(id).showPopover();
  }
  document.getElementById("film-caption").textContent = text;
}"""
POINT = "([x, y]) => { document.getElementById('film-arrow').style.transform = `translate(${x}px, ${y}px)`; }"
HOLD = """name => {
  const file = document.getElementById("film-arrow").lastChild;
  file.textContent = name;
  file.style.display = name ? "block" : "none";
}"""
DRAG = """([x, y, text, name, kind]) => {
  const data = new DataTransfer();
  data.items.add(new File([text], name, { type: "application/json" }));
  const event = new DragEvent(kind, { dataTransfer: data, bubbles: true, cancelable: true });
  document.elementFromPoint(x, y).dispatchEvent(event);
}"""


class Camera:
    """Keeps what a page shows, with the seconds of the film at which it changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.frames: list[tuple[float, Path]] = []
        self.began = 0.0

    async def start(self, page: Page) -> None:
        """Begin to receive the frames of a page."""
        self.session: Any = await page.context.new_cdp_session(page)
        self.session.on("Page.screencastFrame", self._keep)
        self.began = time.monotonic()
        await self.session.send("Page.startScreencast", {"format": "png"})

    async def _keep(self, frame: dict[str, Any]) -> None:
        at = time.monotonic() - self.began
        if not self.frames or at - self.frames[-1][0] >= 0.9 / FRAMES_PER_S:
            self.frames.append((at, self.folder / f"{time.monotonic_ns()}.png"))
        self.frames[-1][1].write_bytes(base64.b64decode(frame["data"]))
        await self.session.send("Page.screencastFrameAck", {"sessionId": frame["sessionId"]})

    def leave_out(self, seconds: float) -> None:
        """Leave out the seconds before now."""
        self.began += seconds
        now = time.monotonic() - self.began
        self.frames = [(at, path) for at, path in self.frames if at < now]

    async def stop(self, target: Path) -> float:
        """Write the film, and return its seconds."""
        await self.session.send("Page.stopScreencast")
        end = time.monotonic() - self.began
        pace = min(1, LONGEST_S / end)
        lines: list[str] = []
        for (at, path), following in zip(self.frames, [*(at for at, _ in self.frames[1:]), end], strict=True):
            lines += [f"file '{path}'", f"duration {(following - at) * pace:.3f}"]
        playlist = self.folder / "frames.txt"
        playlist.write_text("\n".join([*lines, f"file '{self.frames[-1][1]}'"]), "utf-8")
        palette = "split[a][b];[a]palettegen=max_colors=128:stats_mode=diff[p];[b][p]paletteuse=dither=none"
        command = ["ffmpeg", "-y", "-loglevel", "error", "-f", "concat", "-safe", "0", "-i", playlist]
        command += ["-vf", f"{palette}:diff_mode=rectangle", "-fps_mode", "vfr", "-loop", "0", target]
        subprocess.run(command, check=True)
        return end * pace


class Actor:
    """Somebody who uses the page so that others can follow."""

    def __init__(self, page: Page) -> None:
        self.page = page

    async def say(self, text: str, seconds: float = 0) -> None:
        """Show a line at the bottom."""
        await self.page.evaluate(SAY, text)
        await asyncio.sleep(seconds)

    async def point(self, x: float, y: float) -> None:
        """Move the arrow."""
        await self.page.evaluate(POINT, [x, y])
        await asyncio.sleep(0.55)
        await self.page.mouse.move(x, y)

    async def click(self, target: Locator) -> None:
        """Move the arrow to something, and click it."""
        await target.scroll_into_view_if_needed()
        box = await target.bounding_box()
        assert box
        await self.point(box["x"] + min(box["width"] / 2, 80), box["y"] + box["height"] / 2)
        await target.click()

    async def drop(self, name: str, text: str) -> None:
        """Drag a file from the edge to the middle of the page, and drop it."""
        await self.page.evaluate(HOLD, name)
        await self.point(900, 560)
        await self.page.evaluate(DRAG, [*MIDDLE, text, name, "dragover"])
        await self.point(*MIDDLE)
        await asyncio.sleep(0.8)
        await self.page.evaluate(HOLD, "")
        await self.page.evaluate(DRAG, [*MIDDLE, text, name, "drop"])

    async def write(self, target: Locator, text: str) -> None:
        """Click a field, and write into it."""
        await self.click(target)
        await target.press_sequentially(text, delay=35)


async def add_and_ask(actor: Actor) -> None:
    """Drop a canvas, add the agent, and ask it."""
    page = actor.page
    await actor.say("Drop a canvas that RAGFlow's editor has exported", 1.5)
    await actor.drop("lamp_shop.json", json.dumps(lamp_shop(), indent=2))
    await expect(page.get_by_text("It can run.")).to_be_visible()
    await actor.say("It is checked before it runs", 2)
    await actor.click(page.get_by_role("button", name="Add the agent"))
    await expect(page.locator(".picture svg")).to_be_visible()
    await actor.say("Ask, and watch it run", 1.5)
    question = "My lamp arrived broken. Can I have my money back?"
    await actor.write(page.get_by_role("textbox", name="Your message"), question)
    await actor.click(page.get_by_role("button", name="Send"))


async def kill_and_go_on(actor: Actor, stage: Stage, camera: Camera) -> None:
    """Kill the server in the middle of the answer, and start another one."""
    answer = actor.page.locator(".message.assistant").last
    await expect(answer).to_contain_text("back into its box", timeout=60_000)
    await actor.say("kill -9: the server dies in the middle of the answer")
    await stage.kill()
    away = actor.page.get_by_text("The server cannot be reached").first
    await expect(away).to_be_visible(timeout=30_000)
    await asyncio.sleep(2.5)
    began = time.monotonic()
    await stage.start_again()
    await expect(away).to_be_hidden(timeout=60_000)
    camera.leave_out(time.monotonic() - began)
    await actor.say("A new process goes on with the run by itself")
    await expect(answer).to_have_attribute("data-status", "succeeded", timeout=60_000)
    await asyncio.sleep(2)


async def change_and_compare(actor: Actor) -> None:
    """Change what the customer has asked, run from there, and compare both runs."""
    page = actor.page
    values, panel = page.locator(".values"), page.locator(".panel-head")
    await actor.say("Every step is stored: what ran, how long, what it gave")
    await actor.click(page.get_by_role("tab", name="Run"))
    await asyncio.sleep(2.5)
    await actor.say("Go back to one of them, and change a value")
    await actor.click(page.get_by_role("button", name="Values after Customer writes"))
    await actor.click(values.get_by_role("button", name="Edit: sys.query"))
    await values.get_by_role("textbox", name="sys.query").fill("")
    await actor.write(values.get_by_role("textbox", name="sys.query"), "Where is my parcel RL-2041?")
    await asyncio.sleep(0.7)
    await actor.say("Run again from there, in a conversation of its own")
    await actor.click(values.get_by_role("button", name="Run again with these values"))
    await actor.click(page.get_by_role("tab", name="Graph"))
    await expect(page.locator(".message.assistant").last).to_contain_text("seven days", timeout=60_000)
    await asyncio.sleep(2.5)
    await actor.say("Compare both runs")
    await actor.click(panel.get_by_role("button", name="Menu of the run"))
    await asyncio.sleep(0.5)
    await actor.click(page.get_by_role("menuitem", name="Compare"))
    await expect(page.locator(".comparison .side-answer").nth(1)).to_be_visible()
    await actor.click(panel.get_by_role("button", name="Whole width"))
    await asyncio.sleep(5)


async def make_film(stage: Stage, browser: Browser, target: Path) -> float:
    """Write the film, and return its seconds."""
    frames = stage.folder / "frames"
    frames.mkdir()
    page, camera = await enter(stage, browser, SIZE, "light"), Camera(frames)
    await expect(page.get_by_role("heading", name="Agents")).to_be_visible()
    await page.evaluate(OVERLAY)
    await camera.start(page)
    actor = Actor(page)
    await add_and_ask(actor)
    await kill_and_go_on(actor, stage, camera)
    await change_and_compare(actor)
    seconds = await camera.stop(target)
    await page.context.close()
    return seconds
