from pathlib import Path

import pytest

from ragflow_lg.server.http.ragflow_ui.missing_routes import OLDER_REASONS, REASONS, SHARED_AREAS
from tests.server.http.ragflow_ui.ui_server import start_ui


@pytest.mark.parametrize(
    ("method", "path", "reason"),
    [
        ("POST", "/datasets", "[knowledge]"),
        ("POST", "/datasets/0123/documents", "[knowledge]"),
        ("POST", "/chats", "chat assistants"),
        ("GET", "/files", "file manager"),
        ("POST", "/chat/audio/speech", "neither speaks nor listens"),
        ("POST", "/users", "[server.users]"),
        ("PATCH", "/users/me", "[server.users]"),
        ("POST", "/system/tokens", "`ragflow-lg keys create`"),
        ("POST", "/mcp/servers", "[mcp]"),
        ("POST", "/memories", "memories"),
        ("PUT", "/providers", "[providers]"),
        ("PATCH", "/models/default", "[providers]"),
        ("DELETE", "/providers/OpenAI", "[providers]"),
        ("GET", "/pipelines/general", "ingestion pipelines"),
    ],
)
async def test_a_reason_is_given_for_what_the_server_does_not_have(
    tmp_path: Path, method: str, path: str, reason: str
) -> None:
    async with start_ui(tmp_path) as server:
        answer = await server.client.request(method, path)
        assert (answer.status_code, answer.json()["code"]) == (200, 102)
        assert reason in answer.json()["message"]


@pytest.mark.parametrize("area", sorted(SHARED_AREAS))
async def test_visitors_of_shared_pages_get_the_reason_without_a_key(tmp_path: Path, area: str) -> None:
    async with start_ui(tmp_path) as server:
        for key in ("", "Bearer beta-of-a-page"):
            answer = await server.client.get(f"/{area}/0123/info", headers={"Authorization": key})
            expected = {"code": 102, "message": REASONS[area], "data": {"title": REASONS[area]}}
            assert (answer.status_code, answer.json()) == (200, expected)


async def test_other_reasons_need_a_key(tmp_path: Path) -> None:
    async with start_ui(tmp_path) as server:
        for area in sorted(REASONS.keys() - SHARED_AREAS):
            answer = await server.client.post(f"/{area}/0123", headers={"Authorization": ""})
            assert answer.status_code == 401, area


@pytest.mark.parametrize("area", OLDER_REASONS)
async def test_front_ends_of_0_25_get_the_same_reasons(tmp_path: Path, area: str) -> None:
    async with start_ui(tmp_path) as server:
        answer = await server.client.post(f"{server.url}/v1/{area}/set")
        assert (answer.status_code, answer.json()["message"]) == (200, OLDER_REASONS[area])


async def test_paths_that_only_begin_alike_stay_unknown(tmp_path: Path) -> None:
    async with start_ui(tmp_path) as server:
        for area in REASONS:
            assert (await server.client.get(f"/{area}-of-nobody")).status_code == 404
