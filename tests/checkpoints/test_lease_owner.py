import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ragflow_lg.checkpoints.lease_owner import Owner, parse_owner, this_process


def test_an_owner_is_read_as_it_is_written() -> None:
    me = this_process()
    assert parse_owner(str(me)) == me
    assert parse_owner("") is None
    assert parse_owner("a|b") is None
    assert parse_owner("host|x|1") is None
    assert me.label == f"process {me.pid} on {me.machine.split('/')[0]}"


def test_only_a_process_of_this_machine_can_be_dead() -> None:
    me = this_process()
    assert not me.is_dead
    assert replace(me, start_time="0").is_dead  # its number was given to another process
    elsewhere = Owner("another-host", me.pid, "0")
    assert not elsewhere.is_dead


def test_a_process_that_has_ended_is_dead() -> None:
    code = "from ragflow_lg.checkpoints.lease_owner import this_process; print(this_process())"
    text = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    owner = parse_owner(text)
    assert owner is not None
    assert owner.is_dead


def test_what_only_looks_like_an_owner_is_none() -> None:
    assert parse_owner("host|²|1") is None
    assert parse_owner("||") is None


def test_a_process_that_does_not_show_its_start_is_not_taken_for_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where /proc hides what other users run: signalling is refused, so the process is there."""
    me = this_process()
    monkeypatch.setattr(Path, "read_text", _hidden(Path.read_text))

    def refuse(pid: int, signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr("os.kill", refuse)
    assert not replace(me, pid=2**22 + 1).is_dead
    monkeypatch.undo()
    assert replace(me, pid=2**22 + 1).is_dead
    assert replace(me, pid=10**30).is_dead


def _hidden(read_text: Callable[..., str]) -> Callable[..., str]:
    def read(path: Path, *more: Any) -> str:
        if path.name == "stat":
            raise FileNotFoundError(path)
        return read_text(path, *more)

    return read
