"""The filter of system calls as a program; what it does is shown by the attacks."""

import struct

import pytest

from ragflow_lg.integrations.code.bubblewrap import syscall_filter

ALLOW, DENY, MISSING, KILL = 0x7FFF0000, 0x00050001, 0x00050026, 0x80000000


def decide(program: bytes, architecture: int, number: int, first: int = 0) -> int:
    """Run a filter as the kernel does; return its decision."""
    data = {0: number, 4: architecture, 16: first}
    steps = list(struct.iter_unpack("=HBBI", program))
    at, loaded = 0, 0
    while True:
        code, if_true, if_false, value = steps[at]
        at += 1
        if code == 0x20:
            loaded = data[value]
        elif code == 0x06:
            return value
        else:
            is_true = {0x15: loaded == value, 0x35: loaded >= value, 0x45: bool(loaded & value)}[code]
            at += if_true if is_true else if_false


@pytest.mark.parametrize(
    ("machine", "audit", "ptrace", "clone", "socket", "read"),
    [("x86_64", 0xC000003E, 101, 56, 41, 0), ("aarch64", 0xC00000B7, 117, 220, 198, 63)],
)
def test_the_decisions(machine: str, audit: int, ptrace: int, clone: int, socket: int, read: int) -> None:
    program = syscall_filter(machine)
    assert decide(program, audit, read) == ALLOW
    assert decide(program, audit, ptrace) == DENY
    assert decide(program, audit, 435) == MISSING
    assert decide(program, audit, clone, 0x1200011) == ALLOW
    assert decide(program, audit, clone, 0x10000011) == DENY
    assert decide(program, audit, socket, 1) == ALLOW
    assert decide(program, audit, socket, 2) == DENY
    assert decide(program, audit, 0x40000000) == MISSING
    assert decide(program, 0x40000003, read) == KILL


def test_other_machines_have_no_filter() -> None:
    assert syscall_filter("mips") == b""
