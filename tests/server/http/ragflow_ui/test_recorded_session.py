"""Requests of RAGFlow's own front end, recorded by ``python -m tests.harness.ragflow_ui DIST --record FILE``."""

import json
from pathlib import Path
from typing import Any

from tests.fakes.listed_knowledge import ListedKnowledge
from tests.harness.ragflow_ui import DATASET, FIXTURES, SECTIONS, TITLE
from tests.harness.recorded_requests import Ids, RecordedRequest, find_difference, parse_answer, read_requests
from tests.server.http.app_server import AppServer
from tests.server.http.ragflow_ui.ui_server import start_ui

STEPS = {
    *("sign_in", "list_agents", "open_editor", "edit_node", "save", "run", "answer_form", "read_log", "publish"),
    *("list_versions", "list_page_keys", "explore", "list_sessions", "list_models", "list_datasets"),
}


async def send(server: AppServer, request: RecordedRequest, ids: Ids, token: str) -> tuple[str, str]:
    """Replay a request; return the answer and the token for the next ones."""
    body = ids.show(request.body)
    if request.path.endswith("/auth/login"):
        body["password"] = server.key
    content = body if isinstance(body, str) else json.dumps(body) if body is not None else None
    headers = {"Authorization": token, "Content-Type": "application/json"}
    url = server.url + ids.show(request.path)
    answer = await server.client.request(request.method, url, content=content, headers=headers)
    assert answer.status_code == 200, (request.step, request.path, answer.text)
    return answer.text, answer.headers.get("authorization", token)


async def test_every_request_of_a_browser_session_is_answered_as_the_front_end_expects(tmp_path: Path) -> None:
    requests, ids, token = read_requests(FIXTURES / "session.jsonl"), Ids(), ""
    assert {request.step for request in requests} == STEPS
    options: dict[str, Any] = {"sections": SECTIONS, "knowledge": ListedKnowledge(DATASET)}
    async with start_ui(tmp_path, **options) as server:
        dsl = json.loads((FIXTURES / "size.json").read_text("utf-8"))
        ids.add(await server.agent(dsl, TITLE), "<id 0>")
        streams: list[str] = []
        for request in requests:
            text, token = await send(server, request, ids, token)
            answer = parse_answer(text)
            ids.learn(request.ids, answer)
            code = answer.get("code", 0) if isinstance(answer, dict) else 0  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            where = (request.step, request.method, request.path)
            assert code == request.code == 0, (*where, text)
            assert not (difference := find_difference(request.shape, answer)), (*where, difference)
            streams += [text] if text.startswith("data:") else []
        question, form = streams
        assert "Which size is the parcel?" in question
        assert '"content":"A parcel, size 42. Thanks!"' in form
        versions = (await server.client.get(ids.show("/agents/<id 0>/versions"))).json()["data"]
        assert any(version["release"] for version in versions)
