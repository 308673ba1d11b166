"""The sandbox service: its contract, and our client against it, with real programs."""

import asyncio
import base64
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from ragflow_lg.adapters.http.http_client import GuardedHttpClient
from ragflow_lg.adapters.http.http_settings import HttpSettings
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.integrations.code import sandbox_choice
from ragflow_lg.integrations.code.bubblewrap import Bubblewrap
from ragflow_lg.integrations.code.code_settings import CodeLimits, CodeSection
from ragflow_lg.integrations.code.http_sandbox import HttpSandbox
from ragflow_lg.integrations.code.programs import CodeRequest, CodeResult, CodeSandbox
from ragflow_lg.integrations.code.sandbox_app import sandbox_app
from ragflow_lg.integrations.code.sandbox_choice import ChosenSandbox
from tests.fakes.code import ScriptedSandbox
from tests.fakes.services import ScriptedHttp
from tests.fakes.tool_stubs.stub import serving as serving_app
from tests.harness.rows import each_row
from tests.integrations.code.sandboxes import require_bubblewrap

LIMITS = CodeLimits(timeout_s=60.0, cpu_s=1, output_bytes=10_000)


class LimitedSection(CodeSection):
    @property
    def limits(self) -> CodeLimits:
        return LIMITS


@asynccontextmanager
async def serving(sandbox: CodeSandbox, key: str = "") -> AsyncGenerator[str]:
    """Serve a sandbox on a free port."""
    async with serving_app(sandbox_app(sandbox, key=key, code_bytes=100_000)) as host:
        yield f"http://{host}"


def asking(sandbox: CodeSandbox) -> httpx.AsyncClient:
    """Return a client that asks the service in this process."""
    app = httpx.ASGITransport(sandbox_app(sandbox, key="", code_bytes=100_000))
    return httpx.AsyncClient(transport=app, base_url="http://sandbox")


@asynccontextmanager
async def client_of(url: str, key: str = "") -> AsyncGenerator[HttpSandbox]:
    """Return our client of a service."""
    http = GuardedHttpClient(HttpSettings(allow=("127.0.0.1",)))
    try:
        yield HttpSandbox(url, http, LIMITS, key=key)
    finally:
        await http.aclose()


def local_sandbox() -> CodeSandbox:
    return ChosenSandbox(LimitedSection(bubblewrap=require_bubblewrap()), ScriptedHttp())


@pytest.mark.parametrize(
    ("language", "code"),
    [
        (
            "python",
            "import sys\ndef main(a, b):\n    print('out')\n    print('err', file=sys.stderr)\n    return [a, b, 'ü']",
        ),
        ("javascript", "function main({ a, b }) { console.log('out'); console.error('err'); return [a, b, 'ü']; }"),
    ],
)
async def test_our_client_gets_what_the_sandbox_returns(language: Any, code: str) -> None:
    async with serving(local_sandbox()) as url, client_of(url) as client:
        result = await client.run(CodeRequest(language, code, {"a": None, "b": {"c": True}}))
    assert result == CodeResult("out\n", "err\n", 0, True, [None, {"c": True}, "ü"])


async def test_failures_artifacts_and_limits_pass_through_the_service() -> None:
    async with serving(local_sandbox()) as url, client_of(url) as client:
        failed = await client.run(CodeRequest("python", "def main(): return 1 / 0"))
        assert (failed.has_value, failed.exit_code, "ZeroDivisionError" in failed.stderr) == (False, 1, True)
        code = "def main():\n    open('artifacts/a.csv', 'w').write('1,2')\n    return 1"
        (artifact,) = (await client.run(CodeRequest("python", code))).artifacts
        assert (artifact.name, artifact.mime_type, artifact.content) == ("a.csv", "text/csv", b"1,2")
        slow = await client.run(CodeRequest("python", "def main():\n    while True: pass"))
        assert (slow.exit_code, slow.stdout, "more than 1 s of processor time" in slow.stderr) == (-124, "", True)


async def test_a_key_is_required_if_one_is_set() -> None:
    request = CodeRequest("python", "x")
    async with serving(ScriptedSandbox(CodeResult(has_value=True)), key="s3cret") as url:
        async with client_of(url, "s3cret") as client:
            assert (await client.run(request)).has_value
        for wrong in ("", "other"):
            async with client_of(url, wrong) as client:
                with pytest.raises(ServiceError, match="HTTP 401"):
                    await client.run(request)


async def test_web_pages_cannot_run_programs() -> None:
    """A page may send text to any address without asking; only the header ``Origin`` tells it from other clients."""
    async with asking(ScriptedSandbox()) as client:
        for origin in ("https://evil.example", "null"):
            headers = {"Origin": origin, "Content-Type": "text/plain"}
            reply = await client.post("/run", content=json.dumps(body_of()), headers=headers)
            assert (reply.status_code, reply.json()) == (403, {"detail": "Web pages cannot run programs."})


async def test_a_service_that_has_gone_is_an_error() -> None:
    async with serving(ScriptedSandbox()) as url:
        pass
    async with client_of(url) as client:
        with pytest.raises(ServiceError, match=r"could not be reached|refused|connect"):
            await client.run(CodeRequest("python", "x"))


def body_of(code: str = "def main(): return 1", **fields: Any) -> dict[str, Any]:
    return {"code_b64": base64.b64encode(code.encode()).decode(), "language": "python", "arguments": {}, **fields}


@each_row(
    ("body", "status"),
    [
        (body_of(), 200),
        (body_of(arguments=None), 200),
        (body_of(language="nodejs"), 200),
        (body_of(language="ruby"), 422),
        (body_of(arguments=[1]), 422),
        (body_of(code_b64="not base64!"), 422),
        (body_of(code_b64=f"@@@@{body_of()['code_b64']}!!"), 422),
        (body_of(code_b64=base64.b64encode(b"\xff").decode()), 422),
        ({"language": "python"}, 422),
        (body_of(code_b64=7), 422),
        ([], 422),
        ("[" * 100, 422),
        (body_of("x" * 300_000), 413),
    ],
)
async def test_the_status_of_requests(body: Any, status: int) -> None:
    async with asking(ScriptedSandbox()) as client:
        text = body if isinstance(body, str) else json.dumps(body)
        assert (await client.post("/run", content=text)).status_code == status
        for path in ("/", "/healthz"):
            assert (await client.get(path)).json() == {"status": "ok"}


@each_row("body", [{"language": "python"}, body_of(code_b64=None), body_of(code_b64=7)])
async def test_a_missing_program_is_named(body: Any) -> None:
    async with asking(ScriptedSandbox()) as client:
        reply = await client.post("/run", json=body)
    assert reply.json()["detail"].startswith("code_b64: ")


async def test_replies_have_ragflows_fields() -> None:
    sandbox = Bubblewrap(require_bubblewrap(), LIMITS)
    programs = {
        "def main(): return 1": {"status": "success", "result": {"present": True, "value": 1, "type": "json"}},
        "def main(): return 1 / 0": {"status": "runtime_error", "runtime_error_type": "nonzero_exit", "exit_code": 1},
        "import os\ndef main(): os.abort()": {"status": "runtime_error", "runtime_error_type": "signalled"},
        "def main(): open('/x', 'w')": {"status": "runtime_error", "result": None},
        "import socket\ndef main(): socket.socket()": {
            "status": "unauthorized_access",
            "unauthorized_access_type": "network_access",
        },
        "def main():\n    while True: print('x' * 99)": {
            "status": "resource_limit_exceeded",
            "resource_limit_type": "output",
        },
        "def main(): return len(bytearray(10**10))": {
            "status": "resource_limit_exceeded",
            "resource_limit_type": "memory",
            "exit_code": -137,
        },
    }  # fmt: skip
    async with asking(sandbox) as client:
        for program, expected in programs.items():
            reply = (await client.post("/run", json=body_of(program))).json()
            assert {key: reply.get(key) for key in expected} == expected, program


async def test_a_full_queue_is_reported_as_ragflows_service_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_choice, "QUEUE", 1)
    settings = LimitedSection(bubblewrap=require_bubblewrap(), concurrency=1)
    async with asking(ChosenSandbox(settings, ScriptedHttp())) as client:
        slow = body_of("import time\ndef main(): time.sleep(0.5)")
        replies = await asyncio.gather(*(client.post("/run", json=slow) for _ in range(4)))
        details = [reply.json().get("detail") for reply in replies]
    assert details.count("no_available_container") == 2
