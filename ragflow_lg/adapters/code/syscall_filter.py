"""The system calls that a sandboxed program may not make, as a seccomp filter.

The namespaces already keep a program from the host. The filter reduces what it can reach of the kernel, and closes what
no limit covers: memory that belongs to no process, and namespaces of its own. Source: Linux's ``seccomp(2)``.
"""

from __future__ import annotations

import errno
import platform
import struct
from functools import cache
from typing import NamedTuple

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_X32_BIT = 0x40000000
_NEW_NAMESPACES = 0x7E020000
"""The flags of ``clone`` that create namespaces."""

_AF_UNIX = 1


class _Architecture(NamedTuple):
    """A machine: its audit number, the calls treated in part, and the forbidden calls."""

    audit: int
    clone: int
    socket: int
    forbidden: tuple[int, ...]


_NEWER = (*range(425, 434), 435, 438, 442, 447)
"""Calls with the same number on all machines: io_uring, the mount interface, clone3, pidfd_getfd, memfd_secret."""

_CLONE3 = 435
_MACHINES = {
    "x86_64": _Architecture(
        0xC000003E,
        56,
        41,
        # ptrace, process_vm_*, kcmp; mount, umount2, pivot_root, chroot; unshare, setns; keys
        (*(101, 310, 311, 312, 165, 166, 155, 161, 272, 308, 248, 249, 250),
        # bpf, perf_event_open, userfaultfd, kexec, modules, acct, swap, reboot, clock, quota, handles
         *(321, 298, 323, 246, 320, 175, 313, 176, 163, 167, 168, 169, 164, 227, 179, 303, 304),
        # syslog, personality, vhangup, iopl, ioperm, lookup_dcookie, fanotify_init, memfd_create, System V IPC, mq_open
         *(103, 135, 153, 172, 173, 212, 300, 319, 29, 64, 68, 240)),
    ),
    "aarch64": _Architecture(
        0xC00000B7,
        220,
        198,
        (*(117, 270, 271, 272, 40, 39, 41, 51, 97, 268, 217, 218, 219),
         *(280, 241, 282, 104, 294, 105, 273, 106, 89, 224, 225, 142, 170, 112, 60, 264, 265),
         *(116, 92, 58, 18, 262, 279, 194, 190, 186, 180)),
    ),
}  # fmt: skip


@cache
def syscall_filter(machine: str = "") -> bytes:
    """Return the filter for a machine, by default this one; empty if there is none for it.

    A forbidden call fails with EPERM, clone3 with ENOSYS, after which the C library uses clone. Only local sockets can
    be created: not all families of sockets respect the network namespace.
    """
    rules = _MACHINES.get(machine or platform.machine())
    if rules is None:
        return b""
    denied, missing = _fail(errno.EPERM), _fail(errno.ENOSYS)
    program = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_EQUAL, rules.audit, 1, 0),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER),
        _step(_AT_LEAST, _X32_BIT, 0, 1),
        missing,
        _step(_EQUAL, _CLONE3, 0, 1),
        missing,
    ]
    for number in (*rules.forbidden, *_NEWER):
        program += [_step(_EQUAL, number, 0, 1), denied]
    program += [
        _step(_EQUAL, rules.clone, 0, 4),
        _step(_LOAD, _FIRST_ARGUMENT),
        _step(_ANY_BIT, _NEW_NAMESPACES, 0, 1),
        denied,
        _step(_RETURN, _ALLOW),
        _step(_EQUAL, rules.socket, 0, 3),
        _step(_LOAD, _FIRST_ARGUMENT),
        _step(_EQUAL, _AF_UNIX, 1, 0),
        denied,
        _step(_RETURN, _ALLOW),
    ]
    return b"".join(program)


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _fail(number: int) -> bytes:
    return _step(_RETURN, _ERRNO | number)
