"""What the command allows a file of sessions to do. The file itself decides none of this."""

from __future__ import annotations

from msgspec import Struct


class ImportRights(Struct, frozen=True):
    """What an import may do."""

    tenant: str = ""
    """Who gets imported rows, whatever they name. Without it, a server's only tenant, but only its own rows."""
    replaces: bool = False
    """Whether sessions replace those that are there."""
    has_agents: bool = False
    """Whether missing agents and versions are imported as well."""
    max_bytes: int = 0
    """The size of the file: none of its sessions can have stored more."""
