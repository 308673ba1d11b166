"""The run file in a real Chromium, opened from disk: it shows the session, sends no request, runs no other script."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import Browser, Locator, Page, expect

from tests.fakes.browsers import needs_chromium
from tests.fakes.knowledge import FakeKnowledge, chunk
from tests.fakes.services import Reply
from tests.server.cli.command import ROOT, invoke
from tests.server.http.app_server import CITING, start_app
from tests.server.page.test_page import HOSTILE, ask, open_agent, visit
from tests.server.page.visits import choose_action

pytestmark = needs_chromium
expect.set_options(timeout=60_000)  # the machine may be busy


@asynccontextmanager
async def open_file(browser: Browser, file: Path) -> AsyncGenerator[Page]:
    """Open a file from disk, without a network. At the end, nothing was requested and the console is empty."""
    context = await browser.new_context(viewport={"width": 1400, "height": 900}, offline=True)
    page, problems = await context.new_page(), list[str]()
    page.on("pageerror", lambda error: problems.append(f"error: {error}"))
    page.on("console", lambda line: problems.append(line.text))
    page.on("request", lambda sent: problems.append(sent.url))
    await page.add_init_script(
        "addEventListener('securitypolicyviolation', (event) => console.error(event.violatedDirective))"
    )
    try:
        await page.goto(file.as_uri())
        yield page
    finally:
        await context.close()
    assert problems == [file.as_uri()]


def write_file(
    tmp_path: Path, canvas: Path | str, query: str = "hello", environment: Mapping[str, str] | None = None
) -> Path:
    store = f"sqlite:///{tmp_path}/sessions.db"
    options = ("--model", "demo", "--session", "anna", "--checkpoint", store)
    made = invoke("run", canvas, query, *options, environment=environment)
    assert made.exit_code == 0, made.output
    written = invoke("sessions", "trace", "anna", "--checkpoint", store, "--html", tmp_path / "run.html")
    assert written.exit_code == 0, written.output
    return tmp_path / "run.html"


def node(page: Page, id_: str) -> Locator:
    return page.locator(f"[data-node='{id_}']")


async def test_nodes_that_share_a_step_are_shown_as_done(browser: Browser, tmp_path: Path) -> None:
    file = await asyncio.to_thread(write_file, tmp_path, ROOT / "examples" / "loop.json")
    async with open_file(browser, file) as page:
        await expect(page.locator("[data-rounds]")).to_have_text("round 7")
        for id_ in ("VariableAssigner:Step", "Message:Result"):
            await expect(node(page, id_)).to_have_attribute("data-status", "done")


async def test_a_loop_is_shown_step_by_step(browser: Browser, tmp_path: Path) -> None:
    canvas, each = ROOT / "examples" / "loop.json", {"RAGFLOW_LG_CHECKPOINT_DURABILITY": "steps"}
    file = await asyncio.to_thread(write_file, tmp_path, canvas, environment=each)
    async with open_file(browser, file) as page:
        await expect(page.get_by_text("128 after [1, 2, 4, 8, 16, 32, 64]")).to_be_visible()
        await expect(page.locator("[data-rounds]")).to_have_text("round 7")
        await expect(node(page, "Message:Result")).to_have_attribute("data-status", "done")
        await page.get_by_role("tab", name="Values").click()
        name, slider = page.locator(".step-name"), page.get_by_role("slider")
        await slider.press("Home")
        await expect(name).to_contain_text("The message arrives")
        while "round 3" not in await name.inner_text():
            await slider.press("ArrowRight")
        await page.get_by_role("tab", name="Graph").click()
        await expect(page.locator("[data-rounds]")).to_have_text("round 3")
        await expect(node(page, "VariableAssigner:Step")).to_have_attribute("data-status", "running")
        await expect(node(page, "Message:Result")).not_to_have_attribute("data-status", "done")
        await page.get_by_role("tab", name="Values").click()
        value = page.locator(".variable").filter(has_text="value")
        await expect(value).to_have_attribute("data-change", "changed")
        await expect(value.locator("pre")).to_have_text(["2", "4"])
        await page.get_by_role("tab", name="Run").click()
        await expect(page.locator(".timeline li[data-status='running']")).to_have_count(2)
        await slider.press("End")
        await expect(page.get_by_role("status")).to_have_text("succeeded")


async def test_the_session_on_the_server_is_downloaded_with_hostile_texts(browser: Browser, tmp_path: Path) -> None:
    end = f"</script><script>window.hacked=1</script><!--{HOSTILE}"
    dsl = {**CITING, "title": end}
    knowledge = FakeKnowledge(chunks=[chunk("c-tea", "Tea."), chunk("c-rice", f"Rice needs water. {HOSTILE}")])
    dsl["graph"] = {"nodes": [{"id": "LLM:0", "data": {"name": end}}], "edges": []}
    async with (
        start_app(
            tmp_path,
            [Reply(text=f"Yes [ID:61], $a^2$. {end}\n\n```js\nlet a;\n```\n\n```mermaid\npie\n```")],
            knowledge=knowledge,
        ) as server,
        visit(browser, server.url, server.key) as shown,
    ):
        page = shown.page
        await open_agent(server, page, dsl, "Helper </script>")
        await ask(page, end)
        await expect(page.locator(".message.assistant")).to_have_attribute("data-status", "succeeded")
        for name, suffix in (("Download the run file", "html"), ("Download the events", "jsonl")):
            async with page.expect_download() as download:
                await choose_action(page, name)
            await (await download.value).save_as(tmp_path / f"run.{suffix}")
    async with open_file(browser, tmp_path / "run.html") as page:
        await expect(page.locator(".message.assistant")).to_contain_text("Yes 1, ")
        await page.locator(".piece [data-cite]").focus()
        await expect(page.get_by_role("note")).to_contain_text("Rice needs water.")
        await expect(page.locator(".formula math")).to_have_count(1)
        await expect(page.locator(".hljs-keyword")).to_have_text("let")
        await expect(page.locator(".code-head").last).to_have_text("Mermaid diagram Copy")  # it has no library
        await expect(page.locator(".message.user")).to_have_text(end)
        await expect(page.locator("h1")).to_contain_text("Helper </script>")
        await node(page, "LLM:0").click()
        await expect(page.get_by_role("complementary")).to_contain_text("Yes")
        for name in ("Run", "Values", "Graph"):
            await page.get_by_role("tab", name=name).click()
        assert await page.evaluate("window.hacked") is None
    lines = (tmp_path / "run.jsonl").read_text("utf-8").splitlines()
    assert [line for line in lines if '"event":"workflow_started"' in line] == lines[:1]
    assert '"event":"end"' in lines[-1]
