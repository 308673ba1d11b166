"""What holds for every view of the page: axe, landmarks, sizes, motion, both languages, and texts from the right."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from playwright.async_api import Page

AXE = find_spec("axe_playwright_python")
"""The distribution contains axe-core, which is run as a script of the test: the page's policy stays as it is."""
RUN = """(rules) => axe.run(document, {resultTypes: ["violations"], ...(rules.length ? {runOnly: rules} : {})})
  .then((found) => found.violations)"""
COLOURS = ["color-contrast", "link-in-text-block"]
"""What another theme changes."""
SCRIPT = Path(__file__).with_name("view_checks.js").read_text("utf-8")
USUAL, PHONE, ZOOMED = (1440, 900), (360, 640), (720, 450)
"""The last one is the usual one at 200 %."""
SIZES = (PHONE, ZOOMED, (768, 1024), (1280, 720), (3840, 2160))
DRAWERS = 1000
"""From this width, the panel is no drawer."""
OWN_WORDS = """ragflow lg RAGFlow API JSON Lines HTML MCP Markdown Enter Shift Webhook SDK curl OpenAI LangGraph Mermaid
Python NAME server
frame_origins first api key keys create mcp txt md html csv json docx pdf pptx xlsx qwen max Gate English
accent theme light dark PDF OpenAPI"""
"""Names, commands and settings, which are the same in both languages."""


async def ask_view(page: Page, call: str, *values: Any) -> Any:
    """Return what a function of the script returns."""
    if not await page.evaluate("Boolean(window.views)"):
        await page.evaluate(SCRIPT)
    return await page.evaluate(f"(values) => window.views.{call}(...values)", list(values))


async def find_problems(page: Page, rules: list[str]) -> list[str]:
    """Return what axe calls serious or critical in what the page shows now."""
    if AXE is None:
        return []
    assert AXE.origin is not None
    if not await page.evaluate("Boolean(window.axe)"):
        await page.evaluate(Path(AXE.origin).with_name("axe.min.js").read_text("utf-8"))
    found: list[dict[str, Any]] = await page.evaluate(RUN, rules)
    return [
        f"{each['id']}: {node['html'][:150]} {node['failureSummary'][:300]}"
        for each in found
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]


async def look(page: Page, size: tuple[int, int], *, in_panel: bool = False) -> list[str]:
    """Return what does not fit into a size; of views in the panel, also in its drawer."""
    await page.set_viewport_size({"width": size[0], "height": size[1]})
    await ask_view(page, "frame")
    problems = [*await ask_view(page, "look")]
    if in_panel and size[0] <= DRAWERS:
        await ask_view(page, "openPanel")
        problems += [f"drawer: {each}" for each in await ask_view(page, "look")]
    return [f"{size[0]} × {size[1]}: {each}" for each in problems]


async def check_view(page: Page, *, in_panel: bool = False) -> list[str]:
    """Return what is wrong with the view that the page shows now, in any theme, size and direction."""
    problems: list[str] = []
    themes: list[tuple[Literal["dark", "light"], list[str]]] = [("dark", COLOURS), ("light", [])]
    for theme, rules in themes:
        await page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        problems += [f"{theme}: {each}" for each in await find_problems(page, rules)]
    if (parts := await ask_view(page, "count")) != [1, 1]:
        problems.append(f"main, h1: {parts}")
    problems += [f"moves: {each}" for each in await ask_view(page, "moving")]
    for size in (USUAL, *SIZES):
        problems += await look(page, size, in_panel=in_panel)
    await page.evaluate("document.documentElement.dir = 'rtl'")
    for size in (PHONE, USUAL):
        problems += [f"from the right: {each}" for each in await look(page, size, in_panel=in_panel)]
    await page.evaluate("document.documentElement.dir = ''")
    return problems


async def find_latin(page: Page) -> list[str]:
    """Return the Latin words of what the page shows now, except names."""
    return [f"中文: {each}" for each in await ask_view(page, "latin", OWN_WORDS.split())]
