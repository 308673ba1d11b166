"""Installed packages: the distribution's extras, imported when first used, and the entry points of other packages."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragflow_lg.base.errors import RagflowLgError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.metadata import EntryPoint


MAX_ERROR_CHARS = 500

EXTRAS: dict[str, tuple[str, ...]] = {
    extra: tuple(modules)
    for extra, modules in json.loads(Path(__file__).with_suffix(".json").read_text("utf-8")).items()
}
"""The top-level modules of each extra in ``pyproject.toml``."""


def require(extra: str, purpose: str, error: type[RagflowLgError] = SettingsError) -> None:
    """Check that an extra's packages are installed. ``purpose`` starts the error message: the feature that needs them.

    Raises:
        RagflowLgError: an instance of ``error``, if a package is missing. The message contains the install command.
    """
    missing = [module for module in EXTRAS[extra] if find_spec(module) is None]
    if missing:
        them = "it" if len(missing) == 1 else "them"
        raise error(f"{purpose} needs {', '.join(missing)}. Install {them} with: {install_command(extra)}")


def install_command(extra: str) -> str:
    """Return the command that installs an extra from where pip found this distribution: a folder or an index."""
    # Only error messages need these modules, which take longer to import than the rest of this package.
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    source = "ragflow-lg"
    with suppress(PackageNotFoundError, ValueError):
        address: str = json.loads(distribution("ragflow-lg").read_text("direct_url.json") or "{}").get("url", "")
        if address.startswith("file:"):
            source = url2pathname(urlsplit(address).path)
    return f"pip install '{source}[{extra}]'"


def extra_of(module: str | None) -> str:
    """Return the extra that provides a module, or ``""`` if there is none.

    >>> extra_of("sqlalchemy.orm")
    'server'
    """
    top = (module or "").partition(".")[0]
    return next((extra for extra, modules in EXTRAS.items() if top in modules), "")


def find_entry_points(group: str) -> Sequence[EntryPoint]:
    """Return the entry points of a group in all distributions on ``sys.path``, by name.

    They are searched once, at their first use, because it takes as long as importing ten components.
    """
    return sorted(_scan_distributions(tuple(sys.path)).select(group=group))


@lru_cache(maxsize=1)
def _scan_distributions(path: tuple[str, ...]) -> Any:  # Python 3.11 and 3.12 return different types
    from importlib.metadata import entry_points

    return entry_points()


def load_entry_point(entry_point: EntryPoint, what: str) -> Any:
    """Load an entry point; ``what`` describes it in the error message.

    Raises:
        SettingsError: if it cannot be loaded.
    """
    try:
        return entry_point.load()
    except (Exception, SystemExit) as error:  # importing foreign code may raise anything
        raise SettingsError(
            f"The {what} {describe_entry_point(entry_point)} cannot be loaded: {describe_error(error)}. "
            "Repair or uninstall the package."
        ) from error


def load_named(name: str, setting: str) -> Any:
    """Import what ``setting`` names as ``package.module:name``.

    Raises:
        SettingsError: if it cannot be imported.
    """
    module, _, attributes = name.partition(":")
    try:
        found: Any = import_module(module)
        for attribute in attributes.split("."):
            found = getattr(found, attribute)
    except (Exception, SystemExit) as error:  # importing foreign code may raise anything
        raise SettingsError(
            f"{setting} is {name!r}, which cannot be imported: {describe_error(error)}. Install its package, or "
            "add its folder to PYTHONPATH."
        ) from error
    return found


def describe_error(error: BaseException) -> str:
    """Return the kind and message of an error that foreign code has raised, as one line without a full stop."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:MAX_ERROR_CHARS].removesuffix(".")


def describe_entry_point(entry_point: EntryPoint) -> str:
    """Return the name of an entry point and its package, for an error message."""
    package = entry_point.dist.name if entry_point.dist else "?"
    return f"{entry_point.name!r} of the installed package {package!r} ({entry_point.value}, group {entry_point.group})"


CJK_FAMILY = "Noto Sans CJK TC"
"""Its family. It has the characters of all three languages, in the shapes of traditional Chinese."""


def find_cjk_font() -> Path | None:
    """Return the file of the font, or None if the extra ``cjk`` is not installed."""
    spec = find_spec("cvttf_NotoSansCJK_Regular")
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    return next((file for folder in folders for file in sorted(Path(folder).glob("*.otf"))), None)
