import pytest

from ragflow_lg.server.http.edge import health_routes
from tests.server.http.app_server import AppServer


async def test_programs_learn_without_a_key_what_answers_them(server: AppServer) -> None:
    stranger = server.stranger()
    assert (await stranger.get("/api/v1/language")).json()["data"] == {"language": "python"}
    headers = {"Authorization": f"Bearer {await server.new_key(compat='1.0')}"}
    assert (await stranger.get("/api/v1/language", headers=headers)).json()["data"] == {"language": "go"}
    assert (await stranger.get("/api/v1/system/version")).json()["data"].startswith("ragflow-lg ")
    assert (await stranger.get("/api/v1/system/ping")).text == "pong"


async def test_the_components_are_listed_by_category(server: AppServer) -> None:
    for category in ("", "?category=Agent,shared"):
        listed = (await server.get(f"/components{category}"))["data"]
        names = [each["name"] for each in listed]
        assert names == sorted(names)
        assert {each["category"] for each in listed} == {"agent"}
        invoke = listed[names.index("invoke")]
        assert invoke["inputs"]["content_type"] == "The type of body; JSON if it is blank."
        assert invoke["inputs"]["method"]
        assert set(invoke["outputs"]) == {"result", "status_code", "headers"}
    assert (await server.get("/components?category=ingestion"))["data"] == []
    refused = await server.get("/components?category=agent,other")
    assert (refused["code"], refused["message"]) == (400, "unknown category: other")
    assert (await server.stranger().get("/api/v1/components")).json()["code"] == 401


async def test_the_health_of_the_parts_is_in_ragflows_words(server: AppServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in ("/api/v1/system/healthz", "/v1/system/healthz"):
        answer = await server.stranger().get(path)
        parts = {"db": "ok", "checkpoints": "ok", "journal": "ok", "status": "ok"}
        assert (answer.status_code, answer.json()) == (200, parts)
    monkeypatch.setattr(health_routes, "is_loading", lambda: True)
    answer = await server.stranger().get("/api/v1/system/healthz")
    assert (answer.status_code, answer.json()) == (500, {"status": "nok"})
