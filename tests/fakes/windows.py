"""Takes from a process what Windows lacks.

``sys.platform`` stays: libraries would import modules that exist only on Windows.
"""

import asyncio
import importlib.abc
import os
import signal
import sys
from typing import Any

MODULES = ("fcntl", "grp", "pwd", "resource", "termios", "uvloop")
FUNCTIONS = ("fork", "getpgrp", "getuid", "geteuid", "killpg", "setsid", "statvfs")


class _NoModules(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        if fullname.partition(".")[0] in MODULES:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


def _refuse(*_: Any) -> None:
    raise NotImplementedError


def prepare() -> None:
    """Remove modules, functions, signals and the signal handlers of event loops."""
    for name in MODULES:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, _NoModules())
    for name in FUNCTIONS:
        delattr(os, name)
    for name in ("O_NONBLOCK", "O_NOFOLLOW", "O_DIRECTORY"):
        delattr(os, name)
    for name in ("SIGHUP", "SIGKILL", "SIGQUIT", "SIGUSR1"):
        delattr(signal, name)
    loops: tuple[Any, ...] = (asyncio.AbstractEventLoop, asyncio.SelectorEventLoop)
    for loop in loops:
        loop.add_signal_handler = loop.remove_signal_handler = _refuse
