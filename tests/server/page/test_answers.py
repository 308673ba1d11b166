"""Answers in a real Chromium: Markdown well set, also while it is written, hostile or long."""

import re
from pathlib import Path
from urllib.parse import unquote

from playwright.async_api import Browser, expect

from tests.fakes.browsers import needs_chromium
from tests.fakes.services import Reply
from tests.server.http.app_server import MODEL, start_app
from tests.server.page.visits import ask, choose_action, open_agent, visit

pytestmark = needs_chromium

RICH = r"""# Title

It costs $5 and $6, or US$7, while $E = mc^2$ and \(\mathbb{R}\) are formulas[^a]. See `$x$`.

| Name | Amount |
| --- | ---: |
| Chair | 1,200.00 |

```py
def hello(): return "x"  # long
```

$$\frac{1}{2}$$

- [x] done
- [ ] open

مرحبا

[^a]: The note.
"""
HOSTILE = r"""$\href{javascript:window.hacked=1}{x}$ and $\htmlClass{hidden}{y}$ and $\style{color:red}{z}$

$\def\a{\a\a}\a$

$\rule{100000em}{100000em}$

```js
<img src=x onerror="window.hacked=1">
```

[^constructor] [^__proto__]

[^__proto__]: <img src=x onerror="window.hacked=1">

<b data-cite="1" data-formula="inline" class="composer" id="app">bold</b>
"""
DIAGRAMS = """```mermaid
%%{init: {"theme": "forest", "securityLevel": "loose"}}%%
flowchart TD
  A["<img src=x onerror='parent.postMessage(1, `*`)'>one"] --> B{two}
  click A "javascript:alert(1)"
```

```mermaid
flowchart TD
  A[--> B
```

```mermaid
flowchart TD
  A@{ img: "/page/icon.svg?stolen", label: "x" }
```

"""
LONG = [
    f"## Part {part}\n\nSome **bold** words and `code`, {'word ' * 60}\n\n- one\n- two\n\n" for part in range(60)
] + ["The end."]
ORPHANS = """(answer) => {
  const [text, mark] = [answer.querySelector(".markdown"), answer.querySelector("[data-note]")];
  const [range, stop] = [document.createRange(), document.createRange()];
  range.selectNodeContents(mark.previousSibling);
  stop.setStart(mark.parentElement.nextSibling, 0);
  stop.setEnd(mark.parentElement.nextSibling, 1);
  let count = 0;
  for (let width = 160; width < 500; width += 5) {
    text.style.inlineSize = `${width}px`;
    const [last, own] = [range.getBoundingClientRect(), mark.getBoundingClientRect()];
    count += own.top > last.bottom || stop.getBoundingClientRect().top > own.bottom;
    count += last.left < text.getBoundingClientRect().left + 8;
  }
  text.style.inlineSize = "";
  return count;
}"""
"""How often a mark, the last letter of its word or the full stop after it begins a line."""
FRAMES = """() => { window.frames_ = []; let last = performance.now();
  const note = (now) => { window.frames_.push(now - last); last = now; requestAnimationFrame(note); };
  requestAnimationFrame(note); }"""


async def test_answers_are_well_set_and_harmless(browser: Browser, tmp_path: Path) -> None:
    replies = [Reply(text=RICH), Reply(text=HOSTILE)]
    async with start_app(tmp_path, replies) as server, visit(browser, server.url, server.key) as shown:
        page = shown.page
        await open_agent(server, page, MODEL)
        await ask(page, "rich")
        answer = page.locator(".message.assistant").last
        await expect(answer.locator(".formula math")).to_have_count(3)
        await expect(answer.locator("math").nth(1)).to_have_text("ℝ")
        await expect(answer).to_contain_text("It costs $5 and $6, or US$7")
        await expect(answer.locator("code").get_by_text("$x$")).to_be_visible()
        await expect(answer.locator(".code-head")).to_contain_text("Python")
        await expect(answer.locator(".hljs-keyword").first).to_have_text("def")
        await expect(answer.get_by_role("checkbox", name="Done")).to_be_checked()
        await expect(answer.get_by_role("heading", name="Title", level=3)).to_be_visible()
        await expect(answer.locator("p[dir=auto]", has_text="مرحبا")).to_have_css("direction", "rtl")
        cell = await answer.get_by_role("cell", name="1,200.00").bounding_box()
        assert cell
        assert cell["height"] < 50
        assert await answer.evaluate(ORPHANS) == 0
        await answer.locator("[data-note]").focus()
        await expect(answer.get_by_role("note")).to_have_text("The note.")
        await ask(page, "hostile")
        answer = page.locator(".message.assistant").last
        await expect(answer.locator(".code-head")).to_contain_text("JavaScript")
        await expect(answer.locator("b")).to_have_text("bold")
        assert await answer.locator(":is([href], [id], .hidden, .composer, [onerror], b[data-cite])").count() == 0
        box = await answer.bounding_box()
        assert box
        assert box["height"] < 3000
        assert await page.evaluate("window.hacked") is None


async def test_a_diagram_is_drawn_without_harm_and_in_the_theme(browser: Browser, tmp_path: Path) -> None:
    replies = [Reply(chunks=[DIAGRAMS[:100], DIAGRAMS[100:], "```mermaid\npie\n"], hangs=True)]
    async with start_app(tmp_path, replies) as server, visit(browser, server.url, server.key) as shown:
        page = shown.page
        loaded: list[str] = []
        page.on("response", lambda response: loaded.append(response.url))
        await open_agent(server, page, MODEL)
        await ask(page, "which?")
        blocks = page.locator(".message.assistant .code")
        await expect(blocks).to_have_count(4)
        draw = blocks.get_by_role("button", name="Draw")
        await expect(draw).to_have_count(3)  # the last one is not complete
        assert not any("mermaid" in url for url in loaded)
        await page.route("**/vendor/mermaid.js", lambda route: route.abort(), times=1)
        await draw.first.click()
        await expect(blocks.first.get_by_role("status")).to_contain_text("its library could not be loaded")
        await page.route("**/vendor/mermaid.js", lambda _: None, times=1)  # the next one takes too long
        await page.clock.install()
        for at in (0, 1):
            await draw.nth(at).click()
        await expect(page.locator(".diagram-frame")).to_have_count(1)
        await page.clock.fast_forward(20_000)
        for at, problem in enumerate(("it takes too long", "Parse error on line 3")):
            await expect(blocks.nth(at).get_by_role("status")).to_have_text(
                re.compile(f"It cannot be drawn: {problem}")
            )
        await draw.first.click()
        drawing = blocks.first.get_by_role("img", name="Mermaid diagram")
        picture = drawing.locator("img")
        await expect(drawing).to_be_visible()
        await expect(blocks.first.locator("pre")).to_be_hidden()
        light = await picture.get_attribute("src") or ""
        assert "two" in unquote(light)
        assert not re.search("onerror|javascript:|<script|#cde498", unquote(light))  # the last one is of the forest
        assert await picture.evaluate("(image) => image.decode().then(() => image.naturalHeight)") > 100
        await page.emulate_media(color_scheme="dark")
        await expect(picture).not_to_have_attribute("src", light)
        await choose_action(page, "中文", "Menu")
        await expect(blocks.first.get_by_role("img", name="Mermaid 图")).to_be_visible()
        await expect(blocks.nth(1).get_by_role("status")).to_contain_text("无法绘图")
        await choose_action(page, "English", "菜单")
        await blocks.first.get_by_role("button", name="Source").click()
        await expect(blocks.first.locator("pre")).to_be_visible()
        for at, problem in ((1, "It cannot be drawn: Parse error on line 3"), (2, "It cannot be drawn: ")):
            await draw.nth(at).click()
            await expect(blocks.nth(at).get_by_role("status")).to_contain_text(problem)
            await expect(blocks.nth(at).locator("pre")).to_be_visible()
        assert sum("vendor/mermaid.js" in url for url in loaded) == 1
        assert not any("stolen" in url for url in loaded)
        shown.expected += ["Content Security Policy", "net::ERR_FAILED"]


async def test_a_long_stream_keeps_its_frames(browser: Browser, tmp_path: Path) -> None:
    text = "".join(LONG)
    assert len(text) > 20_000
    pieces = [text[at : at + 40] for at in range(0, len(text), 40)]
    replies = [Reply(chunks=pieces, pause_s=0.008)]
    async with start_app(tmp_path, replies) as server, visit(browser, server.url, server.key) as shown:
        page = shown.page
        await open_agent(server, page, MODEL)
        await page.evaluate(FRAMES)
        await ask(page, "long")
        await expect(page.locator(".message.assistant")).to_contain_text("The end.")
        frames: list[float] = sorted(await page.evaluate("window.frames_"))
        assert frames[len(frames) // 2] < 20
