"""The program of a worker process: it reads tasks from standard input and writes results to standard output.

A request is a pickle, because it comes from the process that started the worker. A response is JSON, because the input
of a task may be hostile and its parent must never unpickle what comes from there. Both start with their length in four
bytes. Source of the limits: POSIX ``setrlimit``; Windows has none, and only the parent's time limit applies there.
"""

from __future__ import annotations

import binascii
import importlib
import math
import os
import pickle
import sys
from typing import Any, BinaryIO

import orjson

from ragflow_lg.base.errors import RagflowLgError
from ragflow_lg.base.values import to_json

LENGTH_BYTES = 4
NICE = 10
"""How much lower its priority is than that of its parent."""
RECYCLE_SHARE = 0.5
"""A worker that occupies more than this share of its memory limit ends after its response."""


def main() -> None:
    """Work until standard input ends. The first argument is the memory limit in bytes."""
    memory_bytes = int(sys.argv[1])
    _leave_group()
    requests, responses = _take_streams()
    _limit_process(memory_bytes)
    while request := _read(requests):
        response = _perform(request)
        is_last = response[0] == "memory" or _resident_bytes() > RECYCLE_SHARE * memory_bytes
        _write(responses, [is_last, *response])
        if is_last:
            return


def _leave_group() -> None:
    """Leave the process group, since Ctrl+C in a terminal is the parent's business, and lower the priority.

    The session stays: Linux compares the priorities of processes only within a session, and gives each session as much
    as any other.
    """
    if sys.platform != "win32":
        os.setpgid(0, 0)
        os.nice(NICE)


def _take_streams() -> tuple[BinaryIO, BinaryIO]:
    """Return the streams to the parent, and keep everything that a library prints away from them."""
    requests = os.fdopen(os.dup(0), "rb")
    responses = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    return requests, responses


def _limit_process(memory_bytes: int) -> None:
    if sys.platform == "win32":
        return
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _limit_processor_time(seconds: float) -> None:
    """Limit the further processor time of the process. At the limit, the kernel ends it with SIGXCPU."""
    if sys.platform == "win32":
        return
    import resource

    usage = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(usage.ru_utime + usage.ru_stime + seconds), hard))


def _resident_bytes() -> int:
    """Return the memory in use; 0 on systems that do not report it. A peak would include that of the parent."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _perform(request: bytes) -> list[Any]:
    """Return the kind of the response and what belongs to it.

    ``["result", value]``, ``["bytes", base64]``, ``["error", class, message]``, ``["memory"]`` or
    ``["failed", reason]``.
    """
    module, name, seconds, args, kwargs = pickle.loads(request)
    _limit_processor_time(seconds)
    try:
        task = getattr(importlib.import_module(module), name)
        value = task.function(*args, **kwargs)
        if isinstance(value, bytes):
            return ["bytes", binascii.b2a_base64(value, newline=False).decode("ascii")]
        return ["result", to_json(value)]
    except MemoryError:
        return ["memory"]
    except RagflowLgError as error:
        return ["error", type(error).__name__, to_json(str(error))]
    except Exception as error:  # noqa: BLE001 - the border of the process: the parent reports it
        return ["failed", to_json(f"{type(error).__name__}: {error}"[:500])]


def _read(stream: BinaryIO) -> bytes:
    return stream.read(int.from_bytes(stream.read(LENGTH_BYTES), "big"))


def _write(stream: BinaryIO, response: list[Any]) -> None:
    try:
        text = orjson.dumps(response)
    except MemoryError:
        text = b'[true, "memory"]'
    stream.write(len(text).to_bytes(LENGTH_BYTES, "big"))
    stream.write(text)
    stream.flush()


if __name__ == "__main__":
    main()
