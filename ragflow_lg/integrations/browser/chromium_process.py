"""A running Chromium with its proxy and its folder, measured while it runs; nothing of it is left at the end."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import signal
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

from ragflow_lg.adapters.http.address_guard import AddressGuard
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.base.process_memory import list_descendants, read_memory_bytes
from ragflow_lg.integrations.browser.browser_settings import BrowserSection
from ragflow_lg.integrations.browser.guarded_proxy import GuardedProxy

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Playwright


NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome", "microsoft-edge", "msedge")
"""The programs to look for, in this order."""

SETUP = "install it, on Debian with `apt install chromium`, or set executable in [browser]"

NICE = 5
"""How much less of the processors Chromium gets than the server."""

NOWHERE = "socks5://127.0.0.1:9"
"""The proxy for Chromium's own requests, which nothing serves: it asks its makers for updates, accounts and more."""


def find_chromium(settings: BrowserSection) -> str:
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


def check_user(settings: BrowserSection) -> None:
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


def write_launcher(folder: Path, program: str, settings: BrowserSection) -> Path:
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


START_S = 30.0
STOP_S = 5.0
WATCH_S = 0.2
"""How often the memory and the downloads are measured."""
WIDTH, HEIGHT = 1280, 800

_PREFIX = "ragflow-lg-browser-"


class ChromiumProcess:
    """One Chromium with an empty profile, which it keeps in memory."""

    def __init__(self, settings: BrowserSection, guard: AddressGuard) -> None:
        self._settings = settings
        self.proxy = GuardedProxy(guard, settings.traffic_bytes)
        self.excess = ""
        """Why Chromium was killed, or ``""``."""
        self.has_too_large_downloads = False
        """Whether the downloads together are larger than the limit."""
        self.folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        self._token = token_hex(16)
        self._playwright: Playwright | None = None
        self._watching: asyncio.Task[None] | None = None

    @property
    def downloads(self) -> Path:
        """The folder with the downloads."""
        return self.folder / "downloads"

    @property
    def is_running(self) -> bool:
        """Whether Chromium runs."""
        return not self.excess and find_process(self.folder, self._token) != 0

    async def start(self) -> BrowserContext:
        """Start Chromium. Return its only context.

        Raises:
            ServiceError: if it does not start.
            SettingsError: if it is not installed.
        """
        from playwright.async_api import Error, async_playwright

        settings = self._settings
        program = find_chromium(settings)
        await asyncio.to_thread(remove_abandoned_folders)
        launcher = write_launcher(self.folder, program, settings)
        port = await self.proxy.start()
        try:
            async with asyncio.timeout(START_S):
                self._playwright = await async_playwright().start()
                browser = await self._playwright.chromium.launch(
                    executable_path=str(launcher),
                    args=arguments(self._token),
                    ignore_default_args=["--disable-popup-blocking"],
                    chromium_sandbox=settings.sandbox,
                    headless=settings.headless,
                    env=environment(self.folder, headless=settings.headless),
                    downloads_path=str(self.downloads),
                    handle_sigint=False,
                    handle_sigterm=False,
                    handle_sighup=False,
                )
                context = await browser.new_context(
                    proxy={"server": f"socks5://127.0.0.1:{port}", "bypass": "<-loopback>"},
                    accept_downloads=True,
                    service_workers="block",
                    viewport={"width": WIDTH, "height": HEIGHT},
                )
        except TimeoutError:
            raise ServiceError(f"Chromium did not start within {START_S:g} s.", is_retryable=True) from None
        except (Error, OSError) as error:
            raise ServiceError(f"Chromium ({program}) does not start: {reason_of(error)}") from None
        self._watching = asyncio.create_task(self._watch(), name="watch the browser")
        return context

    async def _watch(self) -> None:
        """Kill Chromium if it exceeds a limit that the kernel does not apply to all its processes together."""
        settings = self._settings
        while True:
            pid = find_process(self.folder, self._token)
            if not pid:
                return
            if await asyncio.to_thread(memory_of, pid) > settings.memory_bytes:
                self.excess = f"it used more than {settings.memory_bytes:,} bytes of memory"
            size = await asyncio.to_thread(size_of, self.downloads)
            self.has_too_large_downloads = size > settings.download_bytes
            if size > 2 * settings.download_bytes:
                self.excess = f"its downloads were larger than {settings.download_bytes:,} bytes"
            if self.excess:
                kill(pid)
                return
            await asyncio.sleep(WATCH_S)

    async def aclose(self) -> None:
        """Kill Chromium and remove everything that it has stored."""
        await asyncio.shield(asyncio.create_task(self._close(), name="close the browser"))

    async def _close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        if pid := find_process(self.folder, self._token):
            kill(pid)
        await self.proxy.aclose()
        if self._playwright is not None:
            with suppress(TimeoutError, Exception):  # it reports that Chromium is gone
                async with asyncio.timeout(STOP_S):
                    await self._playwright.stop()
        await asyncio.to_thread(shutil.rmtree, self.folder, ignore_errors=True)


def size_of(folder: Path) -> int:
    """Return the size of the files in a folder."""
    with suppress(OSError):
        return sum(entry.stat().st_size for entry in os.scandir(folder) if entry.is_file(follow_symlinks=False))
    return 0


def remove_abandoned_folders() -> None:
    """Remove the folders of programs that were killed before they could do so."""
    with suppress(OSError):
        for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
            pid = folder.name.removeprefix(_PREFIX).partition("-")[0]
            if pid.isdecimal() and not Path(f"/proc/{pid}").exists() and folder.lstat().st_uid == os.geteuid():
                shutil.rmtree(folder, ignore_errors=True)


def reason_of(error: BaseException) -> str:
    """Return the first line of an error of Playwright, without colours and its name."""
    first = str(error).strip().partition("\n")[0].partition("\x1b")[0]
    return first.rpartition("Error: ")[2][:300].rstrip(". ") + "."
