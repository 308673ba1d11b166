"""Features of the operating system that Windows lacks."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress

from ragflow_lg.base.errors import SettingsError


def on_signal(number: int, action: Callable[[], object]) -> None:
    """Call ``action`` in the running event loop when a signal arrives.

    Event loops on Windows cannot handle signals, so the interpreter's own handlers are used there. Outside the main
    thread, signals are not handled.
    """
    loop = asyncio.get_running_loop()

    def handle(*_: object) -> None:
        loop.call_soon_threadsafe(action)

    try:
        loop.add_signal_handler(number, action)
    except (NotImplementedError, RuntimeError):
        with suppress(ValueError):  # not in the main thread
            signal.signal(number, handle)


def on_stop_signals() -> tuple[asyncio.Event, asyncio.Event]:
    """Return two events: SIGINT or SIGTERM sets the first one, and another such signal the second one."""
    stop, stop_now = asyncio.Event(), asyncio.Event()

    def request_stop() -> None:
        (stop_now if stop.is_set() else stop).set()

    for number in (signal.SIGINT, signal.SIGTERM):
        on_signal(number, request_stop)
    return stop, stop_now


def restore_interrupt() -> None:
    """Let the next Ctrl-C end the program."""
    try:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
    except NotImplementedError:
        with suppress(ValueError):
            signal.signal(signal.SIGINT, signal.default_int_handler)


def require_posix(feature: str) -> None:
    """Check that processes can be forked and grouped, as on Linux and macOS.

    Raises:
        SettingsError: On Windows. The message names the feature.
    """
    if not hasattr(os, "fork") or not hasattr(os, "killpg"):
        raise SettingsError(f"{feature} needs Linux or macOS. On Windows, run it in WSL.")
