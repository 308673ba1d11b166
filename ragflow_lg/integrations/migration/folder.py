"""The files of a pulled folder, and its manifest: what came from where, and the hash of each file on the server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta, Struct, field

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.base.local_paths import replace_file

FILE_NAME = "ragflow.json"
FORMAT = "ragflow-lg pull"
VERSION = 1
MAX_BYTES = 32 * 1024 * 1024

Hash: TypeAlias = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
RemoteId: TypeAlias = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}\Z")]
Title: TypeAlias = Annotated[str, Meta(max_length=255)]
Text: TypeAlias = Annotated[str, Meta(max_length=2_000)]
Ms: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
AgentFile: TypeAlias = Annotated[str, Meta(pattern=r"^agents/[a-z0-9_-]{1,120}\.json\Z")]
VersionFile: TypeAlias = Annotated[str, Meta(pattern=r"^versions/[a-z0-9_-]{1,120}/[A-Za-z0-9_-]{1,64}\.json\Z")]
SessionFile: TypeAlias = Annotated[str, Meta(pattern=r"^sessions/[a-z0-9_-]{1,120}/[A-Za-z0-9_-]{1,64}\.json\Z")]


def name_of(file: str) -> str:
    """Return the name of an agent's file, without folder and ending."""
    return file.removeprefix("agents/").removesuffix(".json")


class PulledVersion(Struct, frozen=True, forbid_unknown_fields=True):
    """A published version."""

    file: VersionFile
    title: Title
    hash: Hash
    update_ms: Ms = 0


class PulledSession(Struct, frozen=True, forbid_unknown_fields=True):
    """A session. ``hash`` is that of its file."""

    file: SessionFile
    hash: Hash
    update_ms: Ms = 0


class PulledAgent(Struct, forbid_unknown_fields=True):
    """An agent. ``hash`` is that of its canonical form on the server, without keys."""

    file: AgentFile
    title: Title
    hash: Hash
    update_ms: Ms = 0
    moved_hash: Annotated[str, Meta(pattern=r"^([0-9a-f]{64})?\Z")] = ""
    """The hash of the file when the agent was last stored in the server's database."""
    versions: Annotated[dict[RemoteId, PulledVersion], Meta(max_length=1_000)] = field(
        default_factory=dict[str, PulledVersion]
    )
    sessions: Annotated[dict[RemoteId, PulledSession], Meta(max_length=100_000)] = field(
        default_factory=dict[str, PulledSession]
    )

    @property
    def name(self) -> str:
        """The name of its file."""
        return name_of(self.file)


class PulledDataset(Struct, frozen=True, forbid_unknown_fields=True):
    """A dataset: a live link, or a copy."""

    name: Title
    is_copied: bool = False
    embedding_model: Title = ""


class Manifest(Struct, forbid_unknown_fields=True):
    """What a folder contains and where it came from."""

    format: Annotated[str, Meta(pattern=rf"^{FORMAT}\Z")] = FORMAT
    version: int = VERSION
    url: Text = ""
    key_env: Annotated[str, Meta(max_length=200, pattern=r"^\w*\Z")] = ""
    """The environment variable with the API key; the key itself is not stored."""
    agents: Annotated[dict[RemoteId, PulledAgent], Meta(max_length=10_000)] = field(
        default_factory=dict[str, PulledAgent]
    )
    datasets: Annotated[dict[RemoteId, PulledDataset], Meta(max_length=10_000)] = field(
        default_factory=dict[str, PulledDataset]
    )


def read_manifest(content: bytes) -> Manifest:
    """Return the manifest in a file.

    Raises:
        SettingsError: if the file is no manifest, is from a newer version, or has two agents in one file.
    """
    if len(content) > MAX_BYTES:
        raise SettingsError(f"{FILE_NAME} is larger than {MAX_BYTES:,} bytes.")
    try:
        version = msgspec.json.decode(content, type=_Head).version
        if version != VERSION:
            raise SettingsError(
                f"{FILE_NAME} has the format {version}, but this version of ragflow-lg reads {VERSION}. "
                "Pull into a new folder."
            )
        manifest = msgspec.json.decode(content, type=Manifest)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise SettingsError(f"{FILE_NAME} is damaged: {error}. Restore it, or pull into a new folder.") from None
    files = [agent.file for agent in manifest.agents.values()]
    if len(set(files)) < len(files):
        raise SettingsError(f"{FILE_NAME} is damaged: it has two agents in one file. Pull into a new folder.")
    return manifest


class _Head(Struct):
    version: int


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

    def write_manifest(self, manifest: Manifest) -> None:
        """Store the manifest with sorted keys, so that two pulls can be compared line by line; see `write`."""
        text = msgspec.json.encode(manifest, order="deterministic")
        self.write(FILE_NAME, msgspec.json.format(text, indent=1) + b"\n")

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
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, content, is_private=True)
        except OSError as error:
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
