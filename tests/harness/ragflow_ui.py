"""A session in RAGFlow's own front end, played in Chromium: ``python -m tests.campaigns ragflow-ui DIST``.

It signs in, opens an agent from the list, edits and saves it, runs it, answers its form, reads the log, and publishes.
``--part agents`` plays another session: it creates agents, tests a component, attaches a file, and uses a shared page.
``--pictures FOLDER`` keeps a picture of each step, ``--record FILE`` the requests, which
``tests/server/http/ragflow_ui/test_recorded_session.py`` replays. Needs Playwright (``make .cache/playwright``) and
Chromium.
"""

import argparse
import asyncio
import json
import os
import shutil
import sys
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

from ragflow_lg.services.knowledge import Dataset, DatasetEntry
from tests.fakes.listed_knowledge import ListedKnowledge
from tests.harness import ragflow_ui_agents
from tests.harness.recorded_requests import Ids, RecordedRequest, describe_shape, parse_answer
from tests.server.http.app_server import AppServer, start_app

ROOT = Path(__file__).parents[2]
PLAYWRIGHT = ROOT / ".cache" / "playwright"
FIXTURES = ROOT / "tests" / "fixtures" / "ragflow_ui"
TITLE = "Parcel size"
WAIT_MS = 60_000
REFUSED = frozenset({"open_chat_page"})
"""Steps that use what this server refuses."""
IMPORTED_ID = "<id 2>"
"""Name of the id of the agent that is imported, after the one that is created."""
VISITS = frozenset({"open_shared_page", "open_widget"})
"""Steps whose requests have the key of a page."""
UPLOADED = "<upload>"
"""Key of a recorded body that stands for an upload of the file with the given name."""
SETTLE_MS = 2500
"""Time for requests that a page sends after it is shown."""

DATASET = DatasetEntry(Dataset("0f3c", "Handbook", "bge-m3@SILICONFLOW"), 2, 31)
SECTIONS: dict[str, Any] = {
    "default_model": "gpt-4.1@OpenAI",
    "providers": {"OpenAI": {"api_key": "none", "models": ["gpt-4.1"]}},
    "embeddings": {"bge-m3@SILICONFLOW": {"base_url": "https://api.siliconflow.example/v1"}},
}


class BrowserSession:
    """The steps, on one page of a browser."""

    def __init__(self, page: Any, server: AppServer, pictures: Path | None) -> None:
        self.page = page
        self._server = server
        self._pictures = pictures
        self._ids = Ids()
        self.step = ""
        self.requests: list[RecordedRequest] = []
        self.problems: list[str] = []
        page.set_default_timeout(WAIT_MS)
        page.on("pageerror", lambda error: self.problems.append(f"{self.step}: {error}"))  # pyright: ignore[reportUnknownLambdaType]

    async def play(self, part: str) -> None:
        """Play the steps of a part of the session."""
        dsl = json.loads((FIXTURES / "size.json").read_text("utf-8"))
        self._ids.add(await self._server.agent(dsl, TITLE), "<id 0>")
        for step in self._steps(part):
            self.step = step.__name__
            await step()
            await self.page.wait_for_timeout(SETTLE_MS)
            print(f"{self.step}: {sum(request.step == self.step for request in self.requests)} requests", flush=True)
            if self._pictures is not None:
                await self.page.screenshot(path=self._pictures / f"{len(self.requests):03}_{self.step}.png")

    def _steps(self, part: str) -> tuple[Callable[[], Awaitable[None]], ...]:
        if part == "agents":
            return (
                self.sign_in,
                self.list_page_keys,
                self.create_agent,
                self.import_agent,
                self.test_component,
                self.export_agent,
                self.upload_file,
                self.open_shared_page,
                self.open_widget,
                self.open_chat_page,
            )
        return (
            self.sign_in,
            self.list_agents,
            self.open_editor,
            self.edit_node,
            self.save,
            self.run,
            self.answer_form,
            self.read_log,
            self.publish,
            self.list_versions,
            self.list_page_keys,
            self.explore,
            self.list_sessions,
            self.list_models,
            self.list_datasets,
        )

    async def sign_in(self) -> None:
        page, url = self.page, self._server.url
        await page.goto(f"{url}/login")
        await page.get_by_text("Sign in with").first.click()
        await page.wait_for_url("**/auth/login/key")
        await page.fill("input[name=password]", self._server.key)
        await page.get_by_role("button", name="Sign in").click()
        await page.wait_for_url(f"{url}/")

    async def list_agents(self) -> None:
        await self.page.goto(f"{self._server.url}/agents")
        await self.page.get_by_text(TITLE).first.wait_for()

    async def open_editor(self) -> None:
        await self.page.get_by_text(TITLE).first.click()
        await self.page.get_by_test_id("agent-detail").wait_for()

    async def edit_node(self) -> None:
        await self.page.get_by_text("Answer", exact=True).first.click()
        text = self.page.locator("[contenteditable=true]").first
        await text.click()
        await text.press("End")
        await text.press_sequentially(" Thanks!")

    async def save(self) -> None:
        await self.page.get_by_role("button", name="Save").first.click()

    async def run(self) -> None:
        page = self.page
        await page.get_by_test_id("agent-run").click()
        box = page.get_by_test_id("agent-run-chat").locator("textarea").first
        await box.fill("A parcel")
        await box.press("Enter")
        await page.get_by_text("Which size is the parcel?").first.wait_for()

    async def answer_form(self) -> None:
        chat = self.page.get_by_test_id("agent-run-chat")
        await chat.locator("form input").first.fill("42")
        await chat.get_by_role("button", name="Submit").click()
        await self.page.get_by_text("A parcel, size 42. Thanks!").first.wait_for()

    async def read_log(self) -> None:
        chat = self.page.get_by_test_id("agent-run-chat")
        await chat.locator("button:has(svg.lucide-notebook-text)").last.click()
        await self.page.get_by_text("Ask size").last.wait_for()

    async def publish(self) -> None:
        await self.page.goto(self._editor)
        await self.page.get_by_role("button", name="Publish").first.click()
        await self.page.get_by_role("button", name="Confirm").click()

    async def list_versions(self) -> None:
        await self.page.get_by_role("button", name="Management").click()
        await self.page.get_by_text("Version history").first.click()

    async def list_page_keys(self) -> None:
        await self.page.goto(self._editor)
        await self.page.get_by_role("button", name="Management").click()
        await self.page.get_by_text("Embed into webpage").first.click()

    async def explore(self) -> None:
        await self.page.goto(f"{self._editor}/explore")
        await self.page.get_by_text(TITLE).first.wait_for()

    async def list_sessions(self) -> None:
        await self.page.goto(self._editor.replace("/agent/", "/agent-log-page/"))
        await self.page.get_by_text("A parcel").first.wait_for()

    async def list_models(self) -> None:
        await self.page.goto(f"{self._server.url}/user-setting/model")
        await self.page.get_by_text("gpt-4.1").first.wait_for()

    async def list_datasets(self) -> None:
        await self.page.goto(f"{self._server.url}/datasets")
        await self.page.get_by_text("Handbook").first.wait_for()

    async def create_agent(self) -> None:
        await ragflow_ui_agents.create_agent(self.page, self._server.url)

    async def import_agent(self) -> None:
        await ragflow_ui_agents.import_agent(self.page, self._server.url)

    async def test_component(self) -> None:
        await ragflow_ui_agents.test_component(self.page)

    async def export_agent(self) -> None:
        await ragflow_ui_agents.export_agent(self.page)

    async def upload_file(self) -> None:
        await ragflow_ui_agents.upload_file(self.page)

    async def open_shared_page(self) -> None:
        key = await self._become_visitor()
        await ragflow_ui_agents.open_shared_page(self.page, self._server.url, self._ids.show("<id 0>"), key)

    async def open_widget(self) -> None:
        key = await self._become_visitor()
        await ragflow_ui_agents.open_widget(self.page, self._server.url, self._ids.show(IMPORTED_ID), key)

    async def open_chat_page(self) -> None:
        await ragflow_ui_agents.open_chat_page(self.page, self._server.url, await self._become_visitor())

    async def _become_visitor(self) -> str:
        """Go on in a browser without the token of the sign-in. Return the key of the pages."""
        (key, *_) = (await self._server.client.get("/system/tokens")).json()["data"]
        visitor = await self.page.context.browser.new_context(locale="en")
        self.page = await visitor.new_page()
        self.page.set_default_timeout(WAIT_MS)
        await self.page.route("**/api/v1/**", self.relay)
        return key["beta"]

    @property
    def _editor(self) -> str:
        return self._ids.show(f"{self._server.url}/agent/<id 0>")

    async def relay(self, route: Any) -> None:
        """Send a request of the page, and record it."""
        request, step = route.request, self.step
        response = await route.fetch()
        text = await response.text()
        await route.fulfill(response=response, body=text)
        if text.startswith(("{", "data:")):
            is_upload = request.headers.get("content-type", "").startswith("multipart/")
            body = {UPLOADED: ragflow_ui_agents.UPLOAD} if is_upload else read_body(request.post_data)
            self._record(step, request.method, request.url, body, text)

    def _record(self, step: str, method: str, url: str, body: Any, text: str) -> None:
        parts = urlsplit(url)
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        answer: Any = parse_answer(text)
        body = self._ids.hide(body)
        code = answer.get("code", 0) if isinstance(answer, dict) else 0  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if code and step not in REFUSED:
            self.problems.append(f"{step}: {method} {path} answers {text[:200]}")
        if path.endswith("/auth/login"):
            body["password"] = "KEY"
        shown = self._ids.hide(path)
        if any((each.method, each.path, each.body, each.step) == (method, shown, body, step) for each in self.requests):
            return  # how often a page asks depends on the time
        ids = self._ids.name_new(answer)
        self.requests.append(RecordedRequest(step, method, shown, body, code, ids, describe_shape(answer)))


def read_body(text: str | None) -> Any:
    """Return the JSON in a body, its text if it is something else, or None."""
    try:
        return json.loads(text) if text else None
    except ValueError:
        return text


async def play(build: Path, folder: Path, pictures: Path | None, part: str) -> BrowserSession:
    """Play a part of the session on a new server. ``folder`` is for its data."""
    sys.path.insert(0, os.environ.get("PLAYWRIGHT", str(PLAYWRIGHT)))
    playwright_api: Any = import_module("playwright.async_api")

    options: dict[str, Any] = {"sections": SECTIONS, "knowledge": ListedKnowledge(DATASET)}
    options["allow_origins"] = [ragflow_ui_agents.SHOP]
    async with (
        start_app(folder, ragflow_ui=build, **options) as server,
        playwright_api.async_playwright() as playwright,
    ):
        browser: Any = await playwright.chromium.launch(
            executable_path=shutil.which("chromium") or shutil.which("google-chrome"),
            args=["--no-sandbox", "--disable-features=LocalNetworkAccessChecks"],
        )
        page = await browser.new_page(viewport={"width": 1400, "height": 900}, locale="en")
        session = BrowserSession(page, server, pictures)
        await page.route("**/api/v1/**", session.relay)
        try:
            await session.play(part)
        except Exception:
            if pictures is not None:
                await session.page.screenshot(path=pictures / "failed.png")
            raise
        finally:
            await browser.close()
        return session


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path, help="RAGFlow's folder web/dist")
    parser.add_argument(
        "--part",
        choices=("pages", "agents"),
        default="pages",
        help="an agent on all pages; or agents from files, tests of components, uploads and embedded pages",
    )
    parser.add_argument("--pictures", type=Path, help="folder for a picture of each step")
    parser.add_argument("--record", type=Path, help="file for the requests")
    arguments = parser.parse_args()
    if arguments.pictures is not None:
        arguments.pictures.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        session = asyncio.run(play(arguments.build, Path(folder), arguments.pictures, arguments.part))
    print("\n".join(session.problems) or "no problems")
    if arguments.record is not None:
        lines = [json.dumps(request._asdict(), ensure_ascii=False) for request in session.requests]
        arguments.record.write_text("\n".join(lines) + "\n", "utf-8")
    sys.exit(1 if session.problems else 0)


if __name__ == "__main__":
    main()
