"""What the page costs in a real Chromium: ``python -m benchmarks.page``.

Prints the bytes and the time of the first view, and the frames per second of a graph of 400 nodes that is moved, zoomed
and lit up. The browser has no GPU here: with one, frames are cheaper.
"""

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.async_api import Page, async_playwright, expect

from ragflow_lg.adapters.browser.chromium_process import find_chromium
from tests.fakes.browsers import SMALL
from tests.server.http.app_server import AppServer, canvas, start_app

NODES = 400
VIEWS = 5
MOVES = 120

_FIRST_VIEW = """() => {
  const files = performance.getEntriesByType("resource");
  const page = performance.getEntriesByType("navigation")[0];
  const bytes = [page, ...files].reduce((sum, entry) => sum + entry.transferSize, 0);
  return { requests: files.length + 1, bytes };
}"""

_FRAMES = """([moves, kind]) => new Promise((done) => {
  const picture = document.querySelector(".picture");
  const box = picture.getBoundingClientRect();
  const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
  const send = (name, more) => picture.dispatchEvent(new (name === "wheel" ? WheelEvent : PointerEvent)(
    name, { bubbles: true, cancelable: true, clientX: x, clientY: y, ...more }));
  const nodes = [...document.querySelectorAll(".picture [data-node]")];
  const gaps = [];
  let last = 0;
  let at = 0;
  if (kind === "move") send("pointerdown", { buttons: 1, pointerId: 1 });
  const step = (now) => {
    if (last) gaps.push(now - last);
    last = now;
    if (at === moves) return done(gaps);
    at += 1;
    if (kind === "move") send("pointermove", { buttons: 1, pointerId: 1, clientX: x + at * 4, clientY: y + at % 40 });
    if (kind === "zoom") send("wheel", { deltaY: at % 40 < 20 ? -60 : 60 });
    if (kind === "light") nodes[at % nodes.length].setAttribute("data-status", at % 2 ? "running" : "done");
    requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
})"""


def chain() -> dict[str, Any]:
    """Return a canvas of `NODES` nodes: ten rows beside each other."""
    rows = [[f"StringTransform:{row}x{at}" for at in range(NODES // 10)] for row in range(10)]
    params = {"method": "merge", "script": "{sys.query}", "delimiters": [","]}
    nodes = [(name, "StringTransform", params, row[at + 1 : at + 2]) for row in rows for at, name in enumerate(row)]
    return canvas(("begin", "Begin", {}, [row[0] for row in rows]), *nodes)


async def measure_first_view(page: Page, server: AppServer) -> str:
    """Return the size and the time until a question can be typed, with an empty cache each time."""
    agent = await server.agent(canvas(("begin", "Begin", {}, [])), "Small")
    sizes: dict[str, Any] = {}
    times: list[float] = []
    for _ in range(VIEWS):
        await page.goto("about:blank")
        client = await page.context.new_cdp_session(page)
        await client.send("Network.clearBrowserCache")
        await page.goto(f"{server.url}/#key={server.key}&agent={agent}")
        await page.locator("textarea:enabled").wait_for()
        times.append(await page.evaluate("performance.now()"))
        await page.locator(".picture svg").wait_for()
        sizes = await page.evaluate(_FIRST_VIEW)
    times.sort()
    return (
        f"first view: {sizes['bytes'] / 1000:.0f} kB in {sizes['requests']} requests, "
        f"interactive after {times[len(times) // 2] / 1000:.2f} s (median of {VIEWS}; {times[-1] / 1000:.2f} s at most)"
    )


async def measure_frames(page: Page, server: AppServer) -> list[str]:
    """Return the frames per second of each kind of movement."""
    agent = await server.agent(chain(), "Large")
    await page.goto(f"{server.url}/#/{agent}")
    await expect(page.locator(".picture [data-node]")).to_have_count(NODES + 1)
    lines = [f"graph of {NODES} nodes:"]
    for zoom in ("everything", "readable"):
        if zoom == "readable":
            search = page.locator(".graph input[type=search]")
            await search.fill("StringTransform:5x20")
            await search.press("Enter")
            await page.get_by_role("complementary").get_by_role("button").first.click()
        for kind in ("move", "zoom", "light"):
            await page.wait_for_timeout(500)
            gaps: list[float] = sorted(await page.evaluate(_FRAMES, [MOVES, kind]))
            median, worst = gaps[len(gaps) // 2], gaps[int(len(gaps) * 0.95)]
            lines.append(
                f"  {zoom:<10} {kind:<5} {1000 * len(gaps) / sum(gaps):5.0f} frames/s, "
                f"median {median:.1f} ms, 95 % within {worst:.1f} ms"
            )
            await page.evaluate("dispatchEvent(new PointerEvent('pointerup'))")
    return lines


async def main() -> None:
    """Print all figures."""
    with tempfile.TemporaryDirectory() as folder:
        async with start_app(Path(folder)) as server, async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=find_chromium(SMALL), args=["--no-sandbox"])
            page = await browser.new_page(viewport={"width": 1400, "height": 900})
            sys.stdout.write(await measure_first_view(page, server) + "\n")
            sys.stdout.write("\n".join(await measure_frames(page, server)) + "\n")
            await browser.close()


if __name__ == "__main__":
    asyncio.run(main())
