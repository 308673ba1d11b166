from __future__ import annotations

from pathlib import Path

import pytest

from checkpoints import redis_server as module
from checkpoints.redis_server import missing_modules, prepare, redis_server
from ragflow_lg.errors import CheckpointError


def test_a_server_has_the_modules_and_ends_with_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REDIS_URL", raising=False)
    with redis_server() as url:
        assert missing_modules(url) == []
    with pytest.raises(CheckpointError, match="does not answer"):
        missing_modules(url)


def test_a_given_server_is_used_and_left_alone(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", redis_url)
    with redis_server() as url:
        assert url == redis_url
    assert missing_modules(redis_url) == []
    prepare()


def test_a_given_server_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://me:secret@127.0.0.1:1")
    with pytest.raises(CheckpointError, match=r"127\.0\.0\.1:1 does not answer") as caught, redis_server():
        pass
    assert "secret" not in str(caught.value)


def test_without_any_server_it_says_what_was_tried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("REDIS_URL", raising=False)
    broken = tmp_path / "redis-server"
    broken.write_text("#!/bin/sh\necho cannot run here\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(module, "_packaged", lambda: None)
    with pytest.raises(CheckpointError, match="cannot run here"), redis_server():
        pass
    prepare()
