"""What installed packages bring."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ragflow_lg.errors import SettingsError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["load_entry_point"]


def load_entry_point(entry_point: EntryPoint, what: str) -> Any:
    """Load what an installed package brings; ``what`` it is, for people.

    Raises:
        SettingsError: if it cannot be loaded.
    """
    try:
        return entry_point.load()
    except Exception as error:  # whatever foreign code does when it is imported
        raise SettingsError(
            f"The {what} {entry_point.name!r} of the installed package {_package(entry_point)!r} cannot be "
            f"loaded ({entry_point.value}): {type(error).__name__}: {error}. Repair or uninstall the package."
        ) from error


def _package(entry_point: EntryPoint) -> str:
    return entry_point.dist.name if entry_point.dist else "?"
