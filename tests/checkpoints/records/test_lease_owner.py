import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ragflow_lg.checkpoints.records.leases import Owner, parse_owner, this_process
from tests.harness.loaded_python import python_command
from tests.harness.rows import each_row


def test_an_owner_is_parsed_from_its_text() -> None:
    owner = this_process()
    assert parse_owner(str(owner)) == owner
    assert owner.label == f"process {owner.pid} on {owner.machine.split('/')[0]}"


def test_only_a_process_of_this_machine_counts_as_dead() -> None:
    owner = this_process()
    assert not owner.is_dead
    assert replace(owner, start_time="0").is_dead  # another process has its id now
    assert not Owner("another-host", owner.pid, "0").is_dead


def test_a_finished_process_is_dead() -> None:
    code = "from ragflow_lg.checkpoints.records.leases import this_process; print(this_process())"
    text = subprocess.run(python_command("-c", code), capture_output=True, text=True, check=True).stdout.strip()
    owner = parse_owner(text)
    assert owner is not None
    assert owner.is_dead


@each_row("text", ["", "a|b", "||", "host|x|1", "host|²|1"])
def test_other_texts_are_not_owners(text: str) -> None:
    assert parse_owner(text) is None


def test_a_process_that_hides_its_start_time_counts_as_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """If /proc hides the processes of other users, a permission error on a signal shows that the process exists."""
    owner = this_process()
    monkeypatch.setattr(Path, "read_text", _hide_stat(Path.read_text))

    def refuse(pid: int, signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr("os.kill", refuse)
    assert not replace(owner, pid=2**22 + 1).is_dead
    monkeypatch.undo()
    assert replace(owner, pid=2**22 + 1).is_dead
    assert replace(owner, pid=10**30).is_dead


def _hide_stat(read_text: Callable[..., str]) -> Callable[..., str]:
    def read(path: Path, *more: Any) -> str:
        if path.name == "stat":
            raise FileNotFoundError(path)
        return read_text(path, *more)

    return read
