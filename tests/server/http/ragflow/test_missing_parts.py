from ragflow_lg.server.http.ragflow.missing_parts import OLDER_REASONS, REASONS, SHARED_AREAS
from tests.server.http.app_server import AppServer


async def test_a_reason_is_given_for_what_the_server_does_not_have(server: AppServer) -> None:
    for method, path, reason in (
        ("POST", "/datasets", "[knowledge]"),
        ("POST", "/datasets/0123/documents", "[knowledge]"),
        ("POST", "/chats", "chat assistants"),
        ("POST", "/chats_openai/0123/chat/completions", "chat assistants"),
        ("POST", "/openai/0123/chat/completions", "/v1"),
        ("POST", "/sessions/related_questions", "chat assistants"),
        ("GET", "/files/0123/parent", "without folders"),
        ("POST", "/file/create", "/api/v1/files"),
        ("POST", "/datasets/0123/run_raptor", "[knowledge]"),
        ("POST", "/users", "[server.users]"),
        ("PATCH", "/users/me", "[server.users]"),
        ("POST", "/system/tokens", "`ragflow-lg keys create`"),
        ("POST", "/mcp/servers", "[mcp]"),
        ("POST", "/mcp", "`ragflow-lg serve --mcp`"),
        ("PUT", "/mcp/servers/0123", "[mcp]"),
        ("POST", "/mcp/servers/import", "[mcp]"),
        ("PATCH", "/memories", "memories"),
        ("PUT", "/providers", "[providers]"),
        ("PATCH", "/models/default", "[providers]"),
        ("DELETE", "/providers/OpenAI", "[providers]"),
        ("GET", "/all-models", "[providers]"),
        ("POST", "/audio/speech", "/chat/audio/speech"),
        ("GET", "/pipelines/general", "ingestion pipelines"),
        *(("POST", f"{server.url}/v1/{area}/set", reason) for area, reason in OLDER_REASONS.items()),
    ):
        answer = await server.client.request(method, path)
        assert (answer.status_code, answer.json()["code"], reason in answer.json()["message"]) == (200, 102, True), path
    for area, reason in REASONS.items():
        assert (await server.client.get(f"/{area}-of-nobody")).status_code == 404
        for key in ("", "Bearer beta-of-a-page"):
            answer = await server.client.get(f"/{area}/0123/info", headers={"Authorization": key})
            assert answer.status_code == (200 if area in SHARED_AREAS else 401), area
            if area in SHARED_AREAS:
                assert answer.json() == {"code": 102, "message": reason, "data": {"title": reason}}
