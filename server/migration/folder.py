"""The files of a pulled folder. Writing replaces a file at once, so that a killed pull leaves no half of one."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.migration.manifest import FILE_NAME, MAX_BYTES, Manifest, read_manifest, write_manifest

MAX_FILE_BYTES = 64 * 1024 * 1024


class PulledFolder:
    """A folder with a manifest."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read_manifest(self) -> Manifest | None:
        """Return the manifest, or None if the folder has none.

        Raises:
            SettingsError: if it cannot be read or is damaged.
        """
        content = self.read(FILE_NAME, MAX_BYTES)
        return read_manifest(content) if content is not None else None

    def require_manifest(self) -> Manifest:
        """Return the manifest.

        Raises:
            SettingsError: if the folder has none, or it is damaged.
        """
        manifest = self.read_manifest()
        if manifest is None:
            raise SettingsError(
                f"{str(self.path)!r} has no {FILE_NAME}. Create it with "
                "`ragflow-lg pull --from URL --key-env NAME FOLDER`."
            )
        return manifest

    def write_manifest(self, manifest: Manifest) -> None:
        """Store the manifest; see `write`."""
        self.write(FILE_NAME, write_manifest(manifest))

    def read(self, name: str, max_bytes: int = MAX_FILE_BYTES) -> bytes | None:
        """Return the content of a file, or None if there is none.

        Raises:
            SettingsError: if it is too large, is not a file, or cannot be read.
        """
        path = self._checked(name)
        try:
            if not path.exists():
                return None
            if not path.is_file():
                raise SettingsError(f"{str(path)!r} is not a file.")
            with path.open("rb") as file:
                content = file.read(max_bytes + 1)
        except OSError as error:
            raise SettingsError(f"{str(path)!r} cannot be read: {error.strerror or error}.") from None
        if len(content) > max_bytes:
            raise SettingsError(f"{str(path)!r} is larger than {max_bytes:,} bytes.")
        return content

    def write(self, name: str, content: bytes) -> None:
        """Write a file that only its owner may read, and its folders.

        Raises:
            SettingsError: if it cannot be written, or is reached through a symbolic link.
        """
        path = self._checked(name)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0), 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            os.replace(temporary, path)
        except OSError as error:
            with suppress(OSError):
                temporary.unlink()
            raise SettingsError(f"{str(path)!r} cannot be written: {error.strerror or error}.") from None

    def absolute(self, name: str) -> Path:
        """Return the path of a file, by which it is found from any folder.

        Raises:
            SettingsError: if it is reached through a symbolic link.
        """
        return self._checked(name).resolve()

    def agent_files(self) -> list[str]:
        """Return the names of the files in ``agents``, sorted."""
        try:
            return sorted(f"agents/{path.name}" for path in (self.path / "agents").glob("*.json"))
        except OSError as error:
            raise SettingsError(f"{str(self.path)!r} cannot be read: {error.strerror or error}.") from None

    def _checked(self, name: str) -> Path:
        path = self.path
        for part in name.split("/"):
            path = path / part
            if path.is_symlink():
                raise SettingsError(f"{str(path)!r} is a symbolic link; a pulled folder contains none.")
        return path
