"""Chromium as a program: where it is, how it is started with limits, what it uses, and how it is killed."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ragflow_lg.adapters.browser.browser_settings import BrowserSettings
from ragflow_lg.adapters.code.sandbox_watch import list_descendants, read_memory_bytes
from ragflow_lg.base.errors import SettingsError

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome", "microsoft-edge", "msedge")
"""The programs to look for, in this order."""

SETUP = "install it, on Debian with `apt install chromium` (`make setup-browser`), or set executable in [browser]"

NICE = 5
"""How much less of the processors Chromium gets than the server."""

NOWHERE = "socks5://127.0.0.1:9"
"""The proxy for Chromium's own requests, which nothing serves: it asks its makers for updates, accounts and more."""


def find_chromium(settings: BrowserSettings) -> str:
    """Return the path of Chromium.

    Raises:
        SettingsError: if there is none.
    """
    if settings.executable:
        path = Path(settings.executable).expanduser()
        if not os.access(path, os.X_OK) or path.is_dir():
            raise SettingsError(f"The program {settings.executable!r} (executable in [browser]) cannot be executed.")
        return str(path)
    for name in NAMES:
        if path := shutil.which(name):
            return path
    raise SettingsError(f"The component Browser needs Chromium: {SETUP}.")


def check_user(settings: BrowserSettings) -> None:
    """Check that Chromium can isolate its pages, or that the settings do without.

    Raises:
        SettingsError: otherwise.
    """
    if settings.sandbox and hasattr(os, "geteuid") and os.geteuid() == 0:
        raise SettingsError(
            "Chromium cannot isolate web pages from the system when it runs as root. Run this program as an ordinary "
            "user; or, inside a container that holds nothing else, set sandbox = false in [browser]."
        )


def arguments(token: str) -> list[str]:
    """Return Chromium's arguments: it resolves no names, and uses the network only as its pages' proxy allows.

    ``token`` identifies the process.
    """
    return [
        f"--proxy-server={NOWHERE}",
        "--proxy-bypass-list=<-loopback>",
        "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
        "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
        "--webrtc-ip-handling-policy=disable_non_proxied_udp",
        "--disable-quic",
        "--dns-prefetch-disable",
        "--disable-domain-reliability",
        "--disable-print-preview",
        "--deny-permission-prompts",
        "--no-pings",
        "--disk-cache-size=1",
        "--js-flags=--max-old-space-size=512",
        f"--ragflow-lg-browser={token}",
    ]


def environment(folder: Path, *, headless: bool) -> dict[str, str | float | bool]:
    """Return Chromium's whole environment: no variable of this program, which may contain keys."""
    home = str(folder)
    values: dict[str, str | float | bool] = {
        "PATH": os.defpath,
        "HOME": home,
        "TMPDIR": home,
        "XDG_CONFIG_HOME": home,
        "XDG_CACHE_HOME": home,
        "XDG_RUNTIME_DIR": home,
        "LANG": "C.UTF-8",
    }
    if not headless:
        display: Mapping[str, str] = {name: os.environ.get(name, "") for name in ("DISPLAY", "XAUTHORITY")}
        values |= {name: value for name, value in display.items() if value}
    return values


def write_launcher(folder: Path, program: str, settings: BrowserSettings) -> Path:
    """Write a program that starts Chromium with the kernel's limits, and stores its number in the file ``pid``.

    No file that Chromium writes can exceed twice the limit of downloads, not even for a moment.
    """
    blocks = max(2 * settings.download_bytes, 256 * 1024**2) // 512
    pid = shlex.quote(str(folder / "pid"))
    lines = [
        "#!/bin/sh",
        f"echo $$ > {pid}",
        "ulimit -c 0",
        f"ulimit -f {blocks}",
        f"renice -n {NICE} -p $$ > /dev/null 2>&1",
        f'exec {shlex.quote(program)} "$@"',
    ]
    path = folder / "chromium.sh"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    path.chmod(0o700)
    return path


def find_process(folder: Path, token: str) -> int:
    """Return the number of the Chromium that was started with a token, or 0 if it does not run."""
    with suppress(OSError, ValueError):
        pid = int((folder / "pid").read_text("ascii"))
        if token.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
            return pid
    return 0


def memory_of(pid: int) -> int:
    """Return the memory of a process and of everything that it has started."""
    return sum(map(read_memory_bytes, [pid, *list_descendants(pid)]))


def kill(pid: int) -> None:
    """Kill Chromium and everything that it has started."""
    processes: Sequence[int] = [*list_descendants(pid), pid]
    with suppress(OSError):
        os.killpg(pid, signal.SIGKILL)
    for process in processes:
        with suppress(OSError):
            os.kill(process, signal.SIGKILL)
