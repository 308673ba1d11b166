from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

from checkpoints.owner import Owner, parse_owner, this_process


def test_an_owner_is_read_as_it_is_written() -> None:
    me = this_process()
    assert parse_owner(str(me)) == me
    assert parse_owner("") is None
    assert parse_owner("a|b") is None
    assert parse_owner("host|x|1") is None
    assert me.shown == f"process {me.pid} on {me.machine.split('/')[0]}"


def test_only_a_process_of_this_machine_can_be_dead() -> None:
    me = this_process()
    assert me.is_alive_here
    assert not me.is_dead
    assert replace(me, started="0").is_dead  # its number was given to another process
    elsewhere = Owner("another-host", me.pid, "0")
    assert not elsewhere.is_dead
    assert not elsewhere.is_alive_here


def test_a_process_that_has_ended_is_dead() -> None:
    code = "from checkpoints.owner import this_process; print(this_process())"
    text = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    owner = parse_owner(text)
    assert owner is not None
    assert owner.is_dead
