import io
import json
import logging
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pytest
from openai import AsyncOpenAI

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.base.request_notes import RequestNotes, use_notes
from ragflow_lg.server.database.key_repository import KeyRepository
from ragflow_lg.server.observability.logs import audit, open_audit, open_logs
from ragflow_lg.server.settings.server_section import ServerSection
from tests.fakes.mock_llm import MockLLM, reply
from tests.harness.rows import each_row
from tests.server.http.app_server import ECHO, start_app

LogFormat: TypeAlias = Literal["json", "text"]

logger = logging.getLogger("server.something")


@contextmanager
def without_pytest_handlers() -> Generator[None]:
    """Detach pytest's handlers: xdist cannot send an unpaired surrogate in a report."""
    root = logging.getLogger()
    handlers, root.handlers = root.handlers, []
    try:
        yield
    finally:
        root.handlers = handlers


def log(text: str, *, kind: LogFormat = "json", secrets: tuple[str, ...] = (), request: str = "r1") -> str:
    stream = io.StringIO()
    section = ServerSection(log_format=kind, log_level="info")
    with (
        without_pytest_handlers(),
        open_logs(section, secrets, stream),
        use_notes(RequestNotes(request, "10.0.0.1", "acme", run="f" * 32)),
    ):
        logger.info("%s", text)
    return stream.getvalue()


async def test_debug_logs_contain_no_requests_of_clients() -> None:
    stream = io.StringIO()
    async with MockLLM([reply("hi")]) as model:
        with without_pytest_handlers(), open_logs(ServerSection(log_level="debug"), (), stream):
            client = AsyncOpenAI(base_url=model.base_url, api_key="k", max_retries=0)
            message: Any = {"role": "user", "content": "the value of env.password"}
            await client.chat.completions.create(model="m", messages=[message])
            logging.getLogger("ragflow_lg.something").debug("details")
    assert "the value of" not in stream.getvalue()
    assert "details" in stream.getvalue()


def test_a_line_contains_the_context() -> None:
    line = json.loads(log("hello"))
    assert line.pop("time").endswith("Z")
    context = {"request": "r1", "run": "f" * 32, "tenant": "acme", "address": "10.0.0.1"}
    assert line == {"level": "info", "logger": "server.something", "message": "hello", **context}
    words = " ".join(f"{name}={value}" for name, value in context.items())
    assert log("hello", kind="text").endswith(f" info server.something: hello {words}\n")


@each_row("kind", ["json", "text"])
def test_a_text_cannot_forge_a_line(kind: LogFormat) -> None:
    line = log("a\r\n2026-01-01 error forged\x1b[2J\u2028\x9b\x00\ud800", kind=kind)
    assert line.count("\n") == 1
    assert line.isprintable() or line[:-1].isprintable()


@each_row("kind", ["json", "text"])
def test_secrets_are_removed(kind: LogFormat) -> None:
    keys = "sk-very-secret-1, ragflow-AbCdEfGhIjKlMnOp1234, /shared/share-QrStUvWxYz-1234567, Bearer abcdefghijkl"
    keys += ", /shared/xshare-MnOpQrStUvWx, /shared/share%252DMnOpQrStUvWx, /shared%2Fshare-MnOpQrStUvWx"
    given = "_share-YzAbCdEfGhIjKl"
    line = log(f"{keys}, postgresql://u:geheim-wort@h/x", kind=kind, secrets=("sk-very-secret-1",), request=given)
    for secret in ("sk-very", "AbCdEf", "QrStUv", "abcdefgh", "geheim", "YzAbCd"):
        assert secret not in line


def test_a_traceback_is_one_line() -> None:
    stream = io.StringIO()
    with open_logs(ServerSection(), (), stream):
        try:
            raise ValueError("no\nmore")
        except ValueError:
            logger.exception("failed")
        logger.info("not logged: the level is warning")
    assert stream.getvalue().count("\n") == 1
    assert "ValueError: no" in stream.getvalue()


def test_events_are_appended_to_a_file_readable_by_its_owner(tmp_path: Path) -> None:
    file = tmp_path / "logs" / "audit.jsonl"
    for number in (1, 2):
        with open_audit(file), use_notes(RequestNotes("r1", "10.0.0.1", "acme", "key-id")):
            audit("agent.deleted", agent=f"a{number}\n" + "x" * 1000)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["agent"][:2] for line in lines] == ["a1", "a2"]
    assert lines[0].pop("time").endswith("Z")
    assert len(lines[0].pop("agent")) == 500
    context = {"tenant": "acme", "key": "key-id", "address": "10.0.0.1", "request": "r1"}
    assert lines[0] == {"event": "agent.deleted", **context}
    assert file.stat().st_mode & 0o777 == 0o600


def test_without_a_file_events_go_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "ragflow_lg.audit"), open_audit(None):
        audit("key.refused", path="/x", beginning="ragflow-abcd")
        audit("request.refused", path="/native/v1/shared/share-QrStUvWxYz-1234567")
    assert [json.loads(message) for message in caplog.messages] == [
        {"event": "key.refused", "path": "/x", "beginning": "ragflow-abcd"},
        {"event": "request.refused", "path": "/native/v1/shared/***"},
    ]


def test_an_unwritable_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="audit"), open_audit(tmp_path):
        pass


async def test_changes_and_refusals_are_recorded(tmp_path: Path) -> None:
    file, other = tmp_path / "audit.jsonl", "0" * 32
    with open_audit(file):
        async with start_app(tmp_path) as server:
            agent_id = await server.agent(ECHO)
            first, second = await server.session(agent_id), await server.session(agent_id)
            native = f"{server.url}/native/v1/agents"
            beta = await KeyRepository(server.app_state.database).create("other", 1, kind="beta")
            page = {"Authorization": f"Bearer {beta}"}
            forged = {"Authorization": "Bearer beta-forged-by-somebody"}
            requests: list[tuple[str, str, dict[str, str]]] = [
                ("POST", f"{native}/{agent_id}/versions", {}),
                ("PUT", f"{native}/{agent_id}/sessions/{first}/version", {}),
                ("DELETE", f"/agents/{agent_id}/sessions/{first}", {}),
                ("DELETE", f"{native}/{agent_id}/sessions/{second}", {}),
                ("GET", f"{native}/{other}/runs", {}),
                ("GET", f"/agents/{other}", {}),
                ("GET", f"/agentbots/{agent_id}/inputs", page),
                ("GET", f"/agents/attachments/{other}/download", page),
                ("GET", f"/agentbots/{agent_id}/inputs", forged),
                ("POST", f"/agents/{agent_id}/webhook", {}),
            ]
            for method, path, headers in requests:
                body = {"version": "published"} if method == "PUT" else {}
                await server.client.request(method, path, headers=headers, json=body)
            versions = (await server.client.get(f"/agents/{agent_id}/versions")).json()["data"]
            (version,) = (row["id"] for row in versions if row["release"])
            await server.client.delete(f"{native}/{agent_id}/versions/{version}")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    entries = [(line["event"], line.get("tenant", ""), line.get("session") or line.get("agent", "")) for line in lines]
    assert entries == [
        ("agent.created", "tenant", agent_id),
        ("version.published", "tenant", agent_id),
        ("session.changed", "tenant", first),
        ("session.deleted", "tenant", first),
        ("session.deleted", "tenant", second),
        ("agent.refused", "tenant", other),
        ("agent.refused", "tenant", other),
        ("agent.refused", "other", agent_id),
        ("file.refused", "other", ""),
        ("key.refused", "", ""),
        ("webhook.refused", "", agent_id),
        ("version.deleted", "tenant", agent_id),
    ]
    assert all(line["request"] and line["address"] == "127.0.0.1" for line in lines)
    assert "forged-by-somebody" not in file.read_text()
