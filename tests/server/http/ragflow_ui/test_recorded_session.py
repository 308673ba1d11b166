"""Requests of RAGFlow's own front end, recorded in a browser, with the shapes of the answers that it needs."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from ragflow_lg.services.knowledge import Dataset, DatasetEntry
from tests.fakes.listed_knowledge import ListedKnowledge
from tests.harness.recorded_requests import Ids, RecordedRequest, find_difference, parse_answer, read_requests
from tests.server.http.app_server import AppServer
from tests.server.http.ragflow_ui.ui_server import start_ui

FIXTURES = Path(__file__).parents[3] / "fixtures" / "ragflow_ui"
TITLE, UPLOADED_TEXT = "Parcel size", "milk and bread"
VISITS = frozenset({"open_shared_page", "open_widget"})
"""Steps whose requests have the key of a page."""
UPLOADED = "<upload>"
"""Key of a recorded body that stands for an upload of the file with the given name."""
DATASET = DatasetEntry(Dataset("0f3c", "Handbook", "bge-m3@SILICONFLOW"), 2, 31)
SECTIONS: dict[str, Any] = {
    "default_model": "gpt-4.1@OpenAI",
    "providers": {"OpenAI": {"api_key": "none", "models": ["gpt-4.1"]}},
    "embeddings": {"bge-m3@SILICONFLOW": {"base_url": "https://api.siliconflow.example/v1"}},
}
PARTS = {
    "session": (
        *("sign_in", "list_agents", "open_editor", "edit_node", "save", "run", "answer_form", "read_log", "publish"),
        *("list_versions", "list_page_keys", "explore", "list_sessions", "list_models", "list_datasets"),
    ),
    "agents": (
        *("sign_in", "list_page_keys", "create_agent", "import_agent", "test_component", "export_agent"),
        *("upload_file", "open_shared_page", "open_widget", "open_chat_page"),
    ),
}
"""The recordings, with their steps."""

TEXTS = {
    "session": ("Which size is the parcel?", "A parcel, size 42. Thanks!"),
    "agents": (UPLOADED_TEXT, "Which size is the parcel?", "A parcel, size 42.", "Note: A letter"),
}
"""What the streams of each recording show, in their order."""


def read_shown_text(stream: str) -> str:
    """Return the messages of a stream, and the tips of its form."""
    lines = stream.removesuffix("data:[DONE]\n\n").split("\n\n")
    data = [json.loads(line.removeprefix("data:"))["data"] for line in lines if line]
    return "".join(part.get("content", "") + part.get("tips", "") for part in data)


class Replay:
    """A browser that repeats recorded requests. ``token`` is its sign-in, ``page_key`` the key of shared pages."""

    def __init__(self, server: AppServer) -> None:
        self.server = server
        self.ids = Ids()
        self.token = ""
        self.page_key = ""
        self.streams: list[str] = []

    async def play(self, request: RecordedRequest) -> None:
        """Repeat a request, and compare the answer with the recorded one."""
        answer = await self._send(request)
        where = (request.step, request.method, request.path)
        assert answer.status_code == 200, (*where, answer.text)
        self.token = answer.headers.get("authorization", self.token)
        value = parse_answer(answer.text)
        self.ids.learn(request.ids, value)
        assert value.get("code", 0) == request.code, (*where, answer.text)
        assert not (difference := find_difference(request.shape, value)), (*where, difference)
        if answer.text.startswith("data:"):
            self.streams.append(answer.text)
        if request.path.endswith("/system/tokens"):
            self.page_key = value["data"][0]["beta"]

    async def _send(self, request: RecordedRequest) -> httpx.Response:
        body = self.ids.show(request.body)
        if request.path.endswith("/auth/login"):
            body["password"] = self.server.key
        authorization = f"Bearer {self.page_key}" if request.step in VISITS else self.token
        headers, options = {"Authorization": authorization}, dict[str, Any]()
        if isinstance(body, dict) and UPLOADED in body:
            options["files"] = {"file": (body[UPLOADED], UPLOADED_TEXT.encode(), "text/plain")}
        elif body is not None:
            options["content"] = body if isinstance(body, str) else json.dumps(body)
            headers["Content-Type"] = "application/json"
        url = self.server.url + self.ids.show(request.path)
        return await self.server.client.request(request.method, url, headers=headers, **options)


@pytest.mark.parametrize("part", PARTS)
async def test_every_request_of_a_browser_is_answered_as_the_front_end_expects(tmp_path: Path, part: str) -> None:
    requests = read_requests(FIXTURES / f"{part}.jsonl")
    assert {request.step for request in requests} == {*PARTS[part]}
    options: dict[str, Any] = {"sections": SECTIONS, "knowledge": ListedKnowledge(DATASET)}
    async with start_ui(tmp_path, **options) as server:
        replay = Replay(server)
        replay.ids.add(await server.agent(json.loads((FIXTURES / "size.json").read_text("utf-8")), TITLE), "<id 0>")
        for request in requests:
            await replay.play(request)
        for text, stream in zip(TEXTS[part], replay.streams, strict=True):
            assert text in read_shown_text(stream)
        if part == "session":
            versions = (await server.get(replay.ids.show("/agents/<id 0>/versions")))["data"]
            assert any(version["release"] for version in versions)
