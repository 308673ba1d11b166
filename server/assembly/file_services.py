"""What creates and keeps the files of runs, as the settings describe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ragflow_lg.adapters.browser.chromium_browsers import ChromiumBrowsers
from ragflow_lg.adapters.folder_artifacts import FolderArtifacts
from ragflow_lg.adapters.reports.worker_reports import WorkerReports
from ragflow_lg.services.code import NoArtifacts

if TYPE_CHECKING:
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.services.workers import Workers


def file_services(settings: Settings, workers: Workers) -> dict[str, Any]:
    """Return ``browsers``, ``reports`` and ``artifacts``. The server has its own."""
    folder = settings.run.downloads
    return {
        "browsers": ChromiumBrowsers(settings.browser.settings, settings.http.allow),
        "reports": WorkerReports(settings.reports.settings, workers),
        "artifacts": NoArtifacts() if folder is None else FolderArtifacts(folder),
    }
