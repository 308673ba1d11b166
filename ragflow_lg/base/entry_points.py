"""Loading the entry points of installed packages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ragflow_lg.base.errors import SettingsError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

MAX_ERROR_CHARS = 500


def load_entry_point(entry_point: EntryPoint, what: str) -> Any:
    """Load an entry point; ``what`` describes it in the error message.

    Raises:
        SettingsError: if it cannot be loaded.
    """
    try:
        return entry_point.load()
    except (Exception, SystemExit) as error:  # importing foreign code may raise anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:MAX_ERROR_CHARS]
        raise SettingsError(
            f"The {what} {describe_entry_point(entry_point)} cannot be loaded: {reason}. "
            "Repair or uninstall the package."
        ) from error


def describe_entry_point(entry_point: EntryPoint) -> str:
    """Return the name of an entry point and its package, for an error message."""
    package = entry_point.dist.name if entry_point.dist else "?"
    return f"{entry_point.name!r} of the installed package {package!r} ({entry_point.value}, group {entry_point.group})"
