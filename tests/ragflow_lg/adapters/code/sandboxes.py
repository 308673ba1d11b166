"""Local sandboxes for tests, as the current user and, if that is root, as an ordinary user as well."""

import asyncio
import os
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from ragflow_lg.adapters.code.bubblewrap import Bubblewrap
from ragflow_lg.adapters.code.code_limits import CodeLimits
from ragflow_lg.base.errors import RagflowLgError
from ragflow_lg.services.code import CodeRequest, CodeResult, Language
from tests.harness import bubblewrap_package

ORDINARY_USER = 1000
MEBIBYTE = 1024 * 1024
LIMITS: dict[str, Any] = {"timeout_s": 8.0, "cpu_s": 2, "memory_bytes": 256 * MEBIBYTE, "scratch_bytes": 32 * MEBIBYTE}
"""Small limits, so that attacks end soon."""

Run = Callable[..., CodeResult]
"""Runs a program: ``run(code, language, limits…)``. Raises the sandbox's error."""

USERS = ("root", "user") if os.geteuid() == 0 else ("user",)


def require_bubblewrap() -> str:
    """Return the path of ``bwrap``, or skip the test."""
    path, reason = bubblewrap_package.find()
    if not path:
        pytest.skip(reason)
    return path


def bubblewrap(user: str) -> Run:
    """Return a function that runs programs in Bubblewrap as a user."""
    path = require_bubblewrap()

    def run(code: str, language: Language = "python", arguments: Any = None, **limits: Any) -> CodeResult:
        sandbox = Bubblewrap(path, CodeLimits(**{**LIMITS, **limits}))
        request = CodeRequest(language, code, arguments or {})
        if user == "user" and os.geteuid() == 0:
            return _as_ordinary_user(lambda: asyncio.run(sandbox.run(request)))
        return asyncio.run(sandbox.run(request))

    if user == "user":
        asyncio.run(Bubblewrap(path).run(CodeRequest("python", "def main(): return 1")))  # loads what the run needs
    return run


def _as_ordinary_user(work: Callable[[], CodeResult]) -> CodeResult:
    """Call a function in a child process that gives up root. The interpreter itself may be unreadable for it."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking a process with threads
        pid = os.fork()
    if pid == 0:
        result: Any = RuntimeError("The child failed.")
        try:
            os.setgroups([])
            os.setgid(ORDINARY_USER)
            os.setuid(ORDINARY_USER)
            result = work()
        except BaseException as error:  # noqa: BLE001 - raised again in the parent
            result = error if isinstance(error, RagflowLgError) else RuntimeError(repr(error))
        finally:
            with os.fdopen(write, "wb") as pipe:
                pickle.dump(result, pipe)
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        result = pickle.load(pipe)
    os.waitpid(pid, 0)
    if isinstance(result, Exception):
        raise result
    return result
