"""Local sandboxes for tests, as the current user and, if that is root, as an ordinary user as well."""

import asyncio
import os
import pickle
import warnings
from collections.abc import Callable
from functools import cache, partial
from typing import Any, cast

import pytest

from ragflow_lg.base.errors import RagflowLgError
from ragflow_lg.integrations.code.bubblewrap import Bubblewrap
from ragflow_lg.integrations.code.code_settings import CodeLimits
from ragflow_lg.integrations.code.programs import CodeRequest, CodeResult, Language
from tests.harness import bubblewrap_package

ORDINARY_USER = 1000
MEBIBYTE = 1024 * 1024
LIMITS: dict[str, Any] = {"timeout_s": 8.0, "cpu_s": 2, "memory_bytes": 256 * MEBIBYTE, "scratch_bytes": 32 * MEBIBYTE}
"""Small limits, so that attacks end soon."""

USERS = ("root", "user") if os.geteuid() == 0 else ("user",)
"""The users that start the sandbox."""


class Run:
    """Runs programs as a user: ``run(code, language, arguments, limits…)``. Raises the sandbox's error."""

    def __init__(self, user: str, program: str) -> None:
        self._user = user
        self._program = program

    def __call__(self, code: str, language: str = "python", arguments: Any = None, **limits: Any) -> CodeResult:
        """Run a program."""
        request = CodeRequest(cast("Language", language), code, arguments or {})
        sandbox = Bubblewrap(self._program, CodeLimits(**{**LIMITS, **limits}))
        work = partial(asyncio.run, sandbox.run(request))
        return _as_ordinary_user(work) if self._user == "user" and os.geteuid() == 0 else work()


def probe(run: Run, *expressions: str, imports: str = "os") -> list[str]:
    """Evaluate expressions inside; return the type of each error, or the value as text."""
    code = (
        f"import {imports}\n"
        "def main(expressions):\n"
        "    results = []\n"
        "    for text in expressions:\n"
        "        try:\n"
        "            results.append(repr(eval(text, globals())))\n"
        "        except BaseException as error:\n"
        "            results.append(type(error).__name__)\n"
        "    return results\n"
    )
    result = run(code, arguments={"expressions": list(expressions)})
    assert isinstance(result.value, list), result.stderr
    return [str(entry) for entry in result.value]


def require_bubblewrap() -> str:
    """Return the path of ``bwrap``, or skip the test."""
    path, reason = bubblewrap_package.find()
    if not path:
        pytest.skip(reason)
    return path


def open_run(user: str) -> Run:
    """Return a function that runs programs in Bubblewrap as a user."""
    program = require_bubblewrap()
    if user == "user":
        _load(program)
    return Run(user, program)


@cache
def _load(program: str) -> None:
    """Load what a run needs, once: the ordinary user may be unable to read it."""
    Run("", program)("def main(): return '\\ud800'")


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
