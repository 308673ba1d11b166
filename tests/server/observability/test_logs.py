import io
import json
import logging
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

import pytest
from openai import AsyncOpenAI

from ragflow_lg.base.request_notes import RequestNotes, current_notes, use_notes
from ragflow_lg.server.observability.logs import escape_controls, open_logs
from ragflow_lg.server.settings.server_section import ServerSection
from tests.fakes.mock_llm import MockLLM, reply

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


def log(text: str, *, kind: LogFormat = "json", secrets: tuple[str, ...] = ()) -> str:
    stream = io.StringIO()
    section = ServerSection(log_format=kind, log_level="info")
    with (
        without_pytest_handlers(),
        open_logs(section, secrets, stream),
        use_notes(RequestNotes("r1", "10.0.0.1", "acme", run="f" * 32)),
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


def test_a_json_line_contains_the_context() -> None:
    line = json.loads(log("hello"))
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info",
        "logger": "server.something",
        "message": "hello",
        "request": "r1",
        "run": "f" * 32,
        "tenant": "acme",
        "address": "10.0.0.1",
    }


def test_a_text_line_contains_the_context() -> None:
    line = log("hello", kind="text")
    assert line.endswith(f" info server.something: hello request=r1 run={'f' * 32} tenant=acme address=10.0.0.1\n")


@pytest.mark.parametrize("kind", ["json", "text"])
def test_a_text_cannot_forge_a_line(kind: LogFormat) -> None:
    line = log("a\r\n2026-01-01 error forged\x1b[2J\u2028\x9b\x00\ud800", kind=kind)
    assert line.count("\n") == 1
    assert line.isprintable() or line[:-1].isprintable()


@pytest.mark.parametrize("kind", ["json", "text"])
def test_secrets_are_removed(kind: LogFormat) -> None:
    text = (
        "key sk-very-secret-1 and ragflow-AbCdEfGhIjKlMnOp1234 and Bearer abcdefghijkl, postgresql://u:geheim-wort@h/x"
    )
    line = log(text, kind=kind, secrets=("sk-very-secret-1",))
    for secret in ("sk-very", "AbCdEf", "abcdefgh", "geheim"):
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


def test_notes_outside_of_requests_are_lost() -> None:
    current_notes().tenant = "nobody reads this"
    assert current_notes() == RequestNotes()


def test_texts_are_shortened() -> None:
    assert len(log("x" * 1_000_000)) < 9_000
    assert escape_controls("ü€😀") == "ü€😀"
