"""The program that runs a Python program inside a sandbox: its text is passed to the interpreter there.

It reads ``{"code", "arguments", "limits"}`` from standard input, calls ``main(**arguments)`` and reports on the pipe
whose number is its only argument, one JSON value per line: ``{"artifact"}`` with the name of each file in
``artifacts`` and then a text with its content in base64, ``{"exceeded", "detail"}`` for an exceeded limit, and
``{"value"}`` at the end.

Imports are most of its running time. It therefore uses only modules that are part of the interpreter: the request is in
`marshal`'s format, which is safe because it comes from the host, and JSON is written by the compiled part of `json`.
"""

from __future__ import annotations

import binascii
import errno
import marshal
import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

FOLDER = "artifacts"
EXCEEDED = {errno.EAGAIN: "processes", errno.EDQUOT: "files", errno.EFBIG: "file_bytes", errno.ENOSPC: "scratch_bytes"}


class _Exceeded(Exception):
    """A limit is exceeded."""


def run(report_to: int) -> NoReturn:
    """Run the program of the request, and end."""
    request = marshal.loads(sys.stdin.buffer.read())
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.set_inheritable(report_to, False)
    os.makedirs(FOLDER, exist_ok=True)
    sys.path.insert(0, os.getcwd())
    lines: list[Any] = []
    code = 1
    try:
        code = _perform(request, lines)
        with open(report_to, "w", encoding="ascii") as pipe:
            for line in lines:
                pipe.write(_encode(line) + "\n")
        _flush()
    finally:
        os._exit(code)  # does not wait for threads of the program


def _perform(request: dict[str, Any], lines: list[Any]) -> int:
    """Call ``main`` and collect what to report. Return the exit code."""
    limits = request["limits"]
    try:
        value = _call_main(request["code"], request["arguments"])
        text = _to_json(value)
        if len(text) > limits["result_bytes"]:
            raise _Exceeded("result_bytes")
        lines += _artifacts(limits)
        lines.append({"value": text})
    except _Exceeded as error:
        lines[:] = [{"exceeded": error.args[0], "detail": "".join(error.args[1:])}]
        return 1
    except MemoryError:
        lines[:] = [{"exceeded": "memory_bytes"}]
        return 1
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return (stop.code or 0) & 255
        sys.stderr.write(f"{stop.code}\n")
        return 1
    except BaseException as error:  # noqa: BLE001 - whatever the program raises is its result
        if limit := _limit_of(error):
            lines[:] = [{"exceeded": limit}]
        else:
            _print_error(error, request["code"])
        return 1
    return 0


def _call_main(code: str, arguments: dict[str, Any]) -> Any:
    module: Any = type(sys)("main")
    module.__file__ = "main.py"
    sys.modules["main"] = module
    exec(compile(code, "main.py", "exec"), module.__dict__)
    main = module.__dict__.get("main")
    if not callable(main):
        raise SystemExit("The code must define a function main.")
    return main(**arguments)


def _to_json(value: Any) -> str:
    kind = type(value).__name__
    if kind in ("coroutine", "generator", "async_generator"):
        if kind == "coroutine":
            value.close()  # else its warning would follow the error
        advice = "a list" if kind == "generator" else "the result of asyncio.run"
        raise SystemExit(f"main must return a value that JSON can hold, not a {kind}. Return {advice} instead.")
    try:
        return _encode(value)
    except (TypeError, ValueError) as error:
        raise SystemExit(f"main must return a value that JSON can hold: {error}.") from None
    except RecursionError:
        raise SystemExit("main must return a value that JSON can hold: it is nested too deeply.") from None


def _encode(value: Any) -> str:
    """Return a value as JSON. Importing `json` itself would take as long as starting the interpreter."""
    try:
        from _json import encode_basestring_ascii, make_encoder
    except ImportError:  # an interpreter without the compiled part
        import json

        return json.dumps(value, separators=(",", ":"))
    encoder: Any = make_encoder
    return "".join(encoder({}, _refuse, encode_basestring_ascii, None, ":", ",", False, False, True)(value, 0))


def _refuse(value: Any) -> NoReturn:
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def _artifacts(limits: dict[str, Any]) -> list[Any]:
    """Read the files below ``artifacts``. Symbolic links, devices and pipes are not files."""
    found: list[Any] = []
    for folder, folders, files in os.walk(FOLDER):
        folders.sort()
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in sorted(files + links):
            path = os.path.join(folder, name)
            shown = os.path.relpath(path, FOLDER)
            if len(found) >= 2 * limits["artifacts"]:
                raise _Exceeded("artifacts")
            is_file = stat.S_ISREG(os.lstat(path).st_mode)
            if not is_file or os.path.splitext(name)[1].lower() not in limits["artifact_types"]:
                raise _Exceeded("artifact_types", shown)
            if os.path.getsize(path) > limits["artifact_bytes"]:
                raise _Exceeded("artifact_bytes", shown)
            with open(path, "rb") as file:
                content = binascii.b2a_base64(file.read(), newline=False).decode("ascii")
            found += [{"artifact": shown}, content]
    return found


def _limit_of(error: BaseException) -> str:
    """Return the limit that caused an error, or ``""``."""
    if isinstance(error, OSError):
        return EXCEEDED.get(error.errno or 0, "")
    return "processes" if str(error) == "can't start new thread" else ""


def _print_error(error: BaseException, code: str) -> None:
    """Print the traceback of the program, without the lines of this one."""
    import linecache
    import traceback

    linecache.cache["main.py"] = (len(code), None, code.splitlines(keepends=True), "main.py")
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != "main.py":
        frames = frames.tb_next
    traceback.print_exception(type(error), error, frames)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue


if __name__ == "__main__":
    run(int(sys.argv[1]))
