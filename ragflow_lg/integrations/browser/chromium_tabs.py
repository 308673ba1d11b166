"""The pages of one Chromium: the current one, and what pages do without being asked."""

from __future__ import annotations

import asyncio
import mimetypes
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ragflow_lg.adapters.folder_artifacts import file_name
from ragflow_lg.integrations.browser.browser_settings import BrowserSection
from ragflow_lg.integrations.browser.browsers import BrowserFile
from ragflow_lg.integrations.browser.chromium_process import ChromiumProcess

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from playwright.async_api import BrowserContext, Dialog, Download, Page

MAX_PAGES = 5
MAX_DIALOGS = 10
"""How many dialogs a page may show before it is closed."""
MAX_NOTES = 20
MAX_NOTE_CHARS = 300
DOWNLOAD_POLL_S = 0.1


class ChromiumTabs:
    """The open pages, the downloads, and notes about both."""

    def __init__(self, context: BrowserContext, process: ChromiumProcess, settings: BrowserSection) -> None:
        self._context = context
        self._process = process
        self._settings = settings
        self._pages: list[Page] = []
        self._dialogs: dict[Page, int] = {}
        self._notes: list[str] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._downloading: set[asyncio.Task[None]] = set()
        self._files: list[BrowserFile] = []
        self._started_downloads = 0
        context.on("page", self._add)

    async def current(self) -> Page:
        """Return the newest page, after opening one if there is none."""
        if not self._pages:
            await self._context.new_page()
        return self._pages[-1]

    def note(self, text: str) -> None:
        """Add a note for the model."""
        if len(self._notes) < MAX_NOTES:
            self._notes.append(" ".join(text.split())[:MAX_NOTE_CHARS])

    def take_notes(self) -> tuple[str, ...]:
        """Return the notes since the last call."""
        notes = tuple(self._notes)
        self._notes.clear()
        return notes

    async def take_downloads(self, seconds: float) -> tuple[BrowserFile, ...]:
        """Wait for downloads at most some seconds. Return those that have been completed since the last call."""
        if self._downloading:
            await asyncio.wait(self._downloading, timeout=seconds)
        if self._downloading:
            self.note(f"{len(self._downloading)} downloads are still running.")
        files = tuple(self._files)
        self._files.clear()
        return files

    async def aclose(self) -> None:
        """Stop waiting for dialogs and downloads."""
        tasks = [*self._tasks, *self._downloading]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _add(self, page: Page) -> None:
        """Handle the events of a new page, or close it if there are too many."""
        if len(self._pages) >= MAX_PAGES:
            self.note(f"A further window was closed: at most {MAX_PAGES} may be open.")
            self._start(_quietly(page.close()))
            return
        if self._pages:
            self.note("A new window was opened; it is the current page now. When it is closed, the one before is.")
        self._pages.append(page)
        page.on("close", self._remove)
        page.on("crash", self._on_crash)
        page.on("dialog", self._on_dialog)
        page.on("download", self._on_download)

    def _remove(self, page: Page) -> None:
        with suppress(ValueError):
            self._pages.remove(page)
        self._dialogs.pop(page, None)

    def _on_crash(self, page: Page) -> None:
        self.note("The page crashed and was closed.")
        self._remove(page)
        self._start(_quietly(page.close()))

    def _on_dialog(self, dialog: Dialog) -> None:
        """Dismiss a dialog. A page that shows them without end is closed."""
        page = dialog.page
        if dialog.type == "beforeunload":
            self._start(_quietly(dialog.accept()))  # it would keep the browser on the page
            return
        count = self._dialogs.get(page, 0) + 1 if page is not None else 1
        if page is not None:
            self._dialogs[page] = count
        if count <= 3:
            self.note(f"The page showed a dialog ({dialog.type}), which was dismissed: {dialog.message[:200]}")
        if count > MAX_DIALOGS and page is not None:
            if page in self._pages:
                self.note(f"The page was closed, because it showed more than {MAX_DIALOGS} dialogs.")
                self._remove(page)
                self._start(_quietly(page.close()))
            return
        self._start(_quietly(dialog.dismiss()))

    def _on_download(self, download: Download) -> None:
        self._started_downloads += 1
        name = file_name(download.suggested_filename)
        if self._started_downloads > self._settings.downloads:
            self.note(f"The download of {name!r} was refused: at most {self._settings.downloads} are allowed.")
            self._start(_quietly(download.cancel()))
            return
        task = asyncio.create_task(self._collect(download, name), name="download")
        self._downloading.add(task)
        task.add_done_callback(self._downloading.discard)

    async def _collect(self, download: Download, name: str) -> None:
        """Wait for a download, and cancel it if the downloads become too large."""
        from playwright.async_api import Error

        finishing = asyncio.ensure_future(download.path())
        try:
            while not finishing.done():
                await asyncio.wait([finishing], timeout=DOWNLOAD_POLL_S)
                if self._process.has_too_large_downloads:
                    finishing.cancel()
                    await _quietly(download.cancel())
                    await _quietly(download.delete())
                    limit = self._settings.download_bytes
                    self.note(f"The download of {name!r} was stopped: at most {limit:,} bytes are allowed together.")
                    return
            content = await asyncio.to_thread(_read, Path(finishing.result()), self._settings.download_bytes)
        except (Error, OSError):
            self.note(f"The download of {name!r} failed.")
            return
        finally:
            finishing.cancel()
        if content is None:
            self.note(f"The download of {name!r} was dropped: it is too large.")
            return
        media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
        self._files.append(BrowserFile(name, media_type, content))


def _read(path: Path, limit: int) -> bytes | None:
    """Return a file, or None if it is larger than the limit."""
    return path.read_bytes() if path.stat().st_size <= limit else None


async def _quietly(work: Coroutine[None, None, object]) -> None:
    """Do something that fails if the page has gone."""
    from playwright.async_api import Error

    with suppress(Error):
        await work
