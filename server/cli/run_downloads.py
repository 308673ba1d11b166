"""The files that a run on the command line writes: their folder, and the report about them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ragflow_lg.server.cli.terminal import print_note

if TYPE_CHECKING:
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.services.services import Services

DOWNLOADS = Path("ragflow-lg-downloads")
"""The folder for files if the settings name none."""

MAX_SHOWN = 20


def keep_files(settings: Settings) -> Settings:
    """Return settings with a folder for the files that runs write.

    The default folder must not be a link: somebody else may have made it in a folder that was cloned or unpacked.
    """
    if settings.run.downloads is not None:
        return settings
    if DOWNLOADS.is_symlink():
        print_note(f"{DOWNLOADS} is a link, so no files are written. Name a folder: RAGFLOW_LG_RUN__DOWNLOADS=FOLDER.")
        return settings
    return settings.model_copy(update={"run": settings.run.model_copy(update={"downloads": DOWNLOADS})})


class WrittenFiles:
    """Reports the files that runs with some services have written."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._reported = 0

    def report(self) -> None:
        """Print the paths of the files that have been written since the last report."""
        paths = [*self._paths()][self._reported :]
        self._reported += len(paths)
        for path in paths[:MAX_SHOWN]:
            print_note(f"Wrote {path}")
        if len(paths) > MAX_SHOWN:
            print_note(f"Wrote {len(paths) - MAX_SHOWN:,} more files to {paths[-1].parent}")

    def _paths(self) -> Iterator[Path]:
        from ragflow_lg.adapters.folder_artifacts import FolderArtifacts

        artifacts = self._services.artifacts
        yield from map(Path, artifacts.stored) if isinstance(artifacts, FolderArtifacts) else ()
