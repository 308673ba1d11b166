from pathlib import Path

import pytest

from ragflow_lg.server.http.shared.body_limits import read_limits
from ragflow_lg.server.settings import Settings
from ragflow_lg.server.settings.server_section import ServerSection
from tests.harness.rows import each_row
from tests.server.http.app_server import canvas
from tests.server.http.ragflow_ui.ui_server import start_ui
from tests.server.http.raw_requests import send_unfinished

SIZES = {"sign_in": 1000, "fields": 2000, "turn": 3000, "canvas": 4000, "webhook": 5000, "upload": 6000}
BOUNDARY = {"Content-Type": "multipart/form-data; boundary=b"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}

ROUTES: list[tuple[str, str, str, dict[str, str]]] = [
    ("sign_in", "POST", "/api/v1/auth/login", {}),
    ("fields", "PUT", "/api/v1/agents/AGENT/tags", {}),
    ("fields", "POST", "/api/v1/agents/AGENT/sessions", FORM),
    ("fields", "POST", "/v1/canvas/rm", {}),
    ("fields", "POST", "/native/v1/agents/AGENT/sessions", {}),
    ("turn", "POST", "/api/v1/agents/chat/completions", {}),
    ("turn", "POST", "/api/v1/agents/AGENT/run", {}),
    ("turn", "POST", "/v1/canvas/completion", {}),
    ("turn", "POST", "/v1/chat/completions", {}),
    ("turn", "POST", "/native/v1/agents/AGENT/runs", {}),
    ("canvas", "POST", "/api/v1/agents", {}),
    ("canvas", "PUT", "/api/v1/agents/AGENT", {}),
    ("canvas", "POST", "/v1/canvas/set", {}),
    ("canvas", "POST", "/native/v1/check", {}),
    ("canvas", "POST", "/native/v1/draw", {}),
    ("canvas", "POST", "/native/v1/agents/AGENT/versions", {}),
    ("webhook", "POST", "/api/v1/webhook/AGENT", {}),
    ("webhook", "POST", "/api/v1/agents/AGENT/webhook", BOUNDARY),
    ("upload", "POST", "/api/v1/agents/AGENT/upload", BOUNDARY),
    ("upload", "POST", "/api/v1/documents/upload", BOUNDARY),
]

HOOK = canvas(("begin", "Begin", {"mode": "Webhook", "security": {"allow_anonymous": True}}, []))


def refusal(kind: str) -> str:
    return f"The body is larger than {SIZES[kind]:,} bytes, the limit {kind} in [server.body_bytes]."


async def test_every_kind_of_body_has_a_limit_on_every_surface(tmp_path: Path) -> None:
    async with start_ui(tmp_path, body_bytes=SIZES) as server:
        agent = await server.agent(HOOK)
        for kind, method, path, headers in ROUTES:
            fields = [f"{name}: {value}" for name, value in headers.items()]
            fields.append(f"Authorization: Bearer {server.key}")
            bodies = {
                f"Content-Length: {SIZES[kind] + 1}": b"",
                "Transfer-Encoding: chunked": b"%x\r\n" % (SIZES[kind] + 1) + b"x" * (SIZES[kind] + 1) + b"\r\n",
            }
            for framing, body in bodies.items():
                answer = await send_unfinished(
                    server, method, path.replace("AGENT", agent), *fields, framing, body=body
                )
                assert answer.startswith("HTTP/1.1 413 "), (path, answer)
                assert refusal(kind) in answer


def test_limits_follow_the_settings() -> None:
    limits = read_limits(Settings())
    assert [limits.get("sign_in").bytes, limits.get("fields").bytes] == [16 * 1024, 1024**2]
    assert [limits.get("turn").bytes, limits.get("canvas").bytes] == [4 * 1024**2, 5 * 1024**2]
    assert limits.get("upload") == limits.general
    small = read_limits(Settings(server=ServerSection(max_body_bytes=1000)))
    assert {small.get(kind) for kind in ("sign_in", "turn", "canvas", "webhook")} == {small.general}


@each_row("kind", SIZES)
def test_bodies_of_no_bytes_cannot_be_configured(kind: str) -> None:
    with pytest.raises(ValueError, match=kind):
        ServerSection.model_validate({"body_bytes": {kind: 0}})
