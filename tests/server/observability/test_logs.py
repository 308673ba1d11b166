from __future__ import annotations

import io
import json
import logging
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from ragflow_lg.server.observability.logs import RequestNotes, current_notes, open_logs, plain, use_notes
from ragflow_lg.server.settings import ServerSection

logger = logging.getLogger("server.something")


@contextmanager
def alone() -> Generator[None]:
    """Keep pytest's handlers from the lines: xdist cannot send a lone surrogate in a report."""
    root = logging.getLogger()
    handlers, root.handlers = root.handlers, []
    try:
        yield
    finally:
        root.handlers = handlers


def logged(text: str, *, kind: str = "json", level: str = "info", secrets: tuple[str, ...] = ()) -> str:
    stream = io.StringIO()
    section = ServerSection(log_format=kind, log_level=level)  # type: ignore[arg-type]
    with alone(), open_logs(section, secrets, stream), use_notes(RequestNotes("r1", "10.0.0.1", "acme", run="f" * 32)):
        logger.info("%s", text)
    return stream.getvalue()


def test_a_line_of_json_says_what_it_is_about() -> None:
    line = json.loads(logged("hello"))
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


def test_a_line_of_text_says_the_same() -> None:
    line = logged("hello", kind="text")
    assert line.endswith(f" info server.something: hello request=r1 run={'f' * 32} tenant=acme address=10.0.0.1\n")


@pytest.mark.parametrize("kind", ["json", "text"])
def test_nobody_forges_a_line(kind: str) -> None:
    line = logged("a\r\n2026-01-01 error forged\x1b[2J\u2028\x9b\x00\ud800", kind=kind)
    assert line.count("\n") == 1
    assert line.isprintable() or line[:-1].isprintable()


@pytest.mark.parametrize("kind", ["json", "text"])
def test_secrets_are_left_out(kind: str) -> None:
    text = (
        "key sk-very-secret-1 and ragflow-AbCdEfGhIjKlMnOp1234 and Bearer abcdefghijkl, postgresql://u:geheim-wort@h/x"
    )
    line = logged(text, kind=kind, secrets=("sk-very-secret-1",))
    for secret in ("sk-very", "AbCdEf", "abcdefgh", "geheim"):
        assert secret not in line


def test_failures_are_told_in_one_line() -> None:
    stream = io.StringIO()
    with open_logs(ServerSection(), (), stream):
        try:
            raise ValueError("no\nmore")
        except ValueError:
            logger.exception("failed")
        logger.info("not told: the level is warning")
    assert stream.getvalue().count("\n") == 1
    assert "ValueError: no" in stream.getvalue()


def test_outside_of_requests_nothing_is_noted() -> None:
    current_notes().tenant = "nobody reads this"
    assert current_notes() == RequestNotes()


def test_texts_are_bounded() -> None:
    assert len(logged("x" * 1_000_000)) < 9_000
    assert plain("ü€😀") == "ü€😀"
