from pathlib import Path

import orjson
import pytest

from tests.server.http.app_server import ECHO, start_app
from tests.server.http.native.native_client import native, problem

JSON = {"Content-Type": "application/json"}
WRONG = b"""{
  "components": {
    "begin": {"obj": {"component_name": "Begin", "params": {}}, "downstream": ["x"]}
  }
}"""


async def test_a_canvas_is_checked_with_line_and_column(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server, native(server) as client:
        assert (await client.post("/check", json=ECHO)).json() == {"runs": True, "diagnostics": []}
        report = (await client.post("/check", content=WRONG, headers=JSON)).json()
        assert (report["runs"], [d["code"] for d in report["diagnostics"]]) == (False, ["target-unknown"])
        assert (report["diagnostics"][0]["line"], report["diagnostics"][0]["node"]) == (3, "begin")


@pytest.mark.parametrize("document", [b"", b"{", b"[]", b"\xff\xfe", b'{"a": ' + b"[" * 100_000, b'"text"'])
async def test_invalid_documents_have_one_diagnostic(tmp_path: Path, document: bytes) -> None:
    async with start_app(tmp_path) as server, native(server) as client:
        report = (await client.post("/check", content=document)).json()
        assert (report["runs"], len(report["diagnostics"])) == (False, 1)
        assert problem(await client.post("/draw", content=document)) == (422, "canvas-invalid")


async def test_a_canvas_is_drawn_in_every_format(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server, native(server) as client:
        for kind, begins, mime in (
            ("svg", b"<svg", "image/svg+xml"),
            ("png", b"\x89PNG", "image/png"),
            ("mermaid", b"", "text/vnd.mermaid; charset=utf-8"),
            ("text", b"", "text/plain; charset=utf-8"),
        ):
            drawn = await client.post(f"/draw?format={kind}", content=orjson.dumps(ECHO))
            assert (drawn.status_code, drawn.headers["content-type"]) == (200, mime)
            assert drawn.content.startswith(begins)
            assert drawn.content
        assert problem(await client.post("/draw?format=gif", json=ECHO)) == (422, "invalid")
        refused = await client.post("/draw", content=WRONG, headers=JSON)
        assert refused.json()["error"]["details"]["diagnostics"][0]["code"] == "target-unknown"


async def test_a_key_is_required_and_bodies_are_limited(tmp_path: Path) -> None:
    async with start_app(tmp_path, max_body_bytes=1000) as server, native(server) as client:
        assert problem(await client.post("/check", content=b"x" * 2000)) == (413, "too-large")
        del client.headers["Authorization"]
        refused = await client.post("/check", json=ECHO)
        assert problem(refused) == (401, "unauthorized")
        assert refused.headers["www-authenticate"] == "Bearer"
        assert problem(await client.post("/draw", json=ECHO)) == (401, "unauthorized")
