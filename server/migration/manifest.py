"""The manifest of a pulled folder: what came from where, and the hash of each file as it was on the server.

It is checked when it is read, because anybody may have changed it or brought it with a folder.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta, Struct, field

from ragflow_lg.base.errors import SettingsError

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

    def agent_names(self) -> set[str]:
        """Return the names of the agents' files, without folder and ending."""
        return {agent.file.removeprefix("agents/").removesuffix(".json") for agent in self.agents.values()}


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


def write_manifest(manifest: Manifest) -> bytes:
    """Return the content of the file: JSON with sorted keys, so that two pulls can be compared line by line."""
    text = msgspec.json.encode(manifest, order="deterministic")
    return msgspec.json.format(text, indent=1) + b"\n"
