"""The registry: components by name."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from ragflow_lg.spec import ComponentSpec

__all__ = ["Registry"]


class Registry:
    """Component specs by name and alias, ignoring case.

    It is an argument wherever it is needed, never a global, so that tests and embedders can have their own.
    """

    def __init__(self) -> None:
        self._by_name: dict[str, ComponentSpec[Any]] = {}

    def add(self, spec: ComponentSpec[Any], *, replace: bool = False) -> None:
        """Register a spec under its name and aliases.

        Raises:
            ValueError: if a name is taken and ``replace`` is false.
        """
        for name in (spec.name, *spec.aliases):
            taken = self._by_name.get(name.lower())
            if taken is not None and taken is not spec and not replace:
                raise ValueError(f"The component name {name!r} is taken by {taken.name!r}; choose another name.")
            self._by_name[name.lower()] = spec

    def get(self, name: str) -> ComponentSpec[Any] | None:
        """Give the spec of a name or alias in any case, or None."""
        return self._by_name.get(name.lower())

    def near(self, name: str) -> list[str]:
        """Give up to three registered names that look like ``name``."""
        spelled = {key: spec.name for key, spec in self._by_name.items()}
        return list(dict.fromkeys(spelled[m] for m in get_close_matches(name.lower(), spelled, n=3)))

    def __iter__(self) -> Iterator[ComponentSpec[Any]]:
        """Go through all specs, each once, by name."""
        return iter(sorted({id(s): s for s in self._by_name.values()}.values(), key=lambda s: s.name.lower()))
