"""The registry of components by name."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from threading import RLock

from msgspec import Struct

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.component.spec import AnySpec

logger = logging.getLogger(__name__)


class BrokenSpec(Struct, frozen=True, eq=False):
    """A component that an installed package should provide but cannot. Looking up its name raises the error."""

    name: str
    error: SettingsError


Source = Callable[[], Iterable[AnySpec | BrokenSpec]]


class Registry:
    """Component specs by name and alias, ignoring case.

    It is always passed as an argument and never global, so that tests and embedding programs can use their own
    registry.
    """

    def __init__(
        self, sources: Mapping[str, Source] | None = None, find_more: Callable[[], Mapping[str, Source]] = lambda: {}
    ) -> None:
        """Create a registry. ``sources`` load specs on first use, each under the lower-case name of its main component.

        Looking up a name without a source adds those that ``find_more`` returns. If none of them has the name either,
        all are loaded.
        """
        self._sources = dict(sources or {})
        self._find_more = find_more
        self._by_name: dict[str, AnySpec] = {}
        self._broken: dict[str, BrokenSpec] = {}
        self._loading = RLock()

    def add(self, spec: AnySpec, *, replace: bool = False) -> None:
        """Register a spec under its name and aliases.

        Raises:
            ValueError: if a name is taken and ``replace`` is false.
        """
        self._load_all()
        self._put(spec, replace=replace)

    def get(self, name: str) -> AnySpec | None:
        """Return the spec with a name or alias, ignoring case, or None.

        Raises:
            SettingsError: if an installed package should provide it but cannot.
        """
        key = name.lower()
        if key not in self._by_name:
            if key not in self._sources:
                self._add_sources()
            self._load(key) if key in self._sources else self._load_all()
        if key not in self._by_name and key in self._broken:
            raise self._broken[key].error
        return self._by_name.get(key)

    @property
    def broken(self) -> list[BrokenSpec]:
        """Components that installed packages should provide but cannot."""
        self._load_all()
        return list(self._broken.values())

    def near(self, name: str, *, is_tool: bool = False) -> list[str]:
        """Return up to three registered names similar to ``name``; with ``is_tool``, only tool names."""
        self._load_all()
        spelled = {key: spec.name for key, spec in self._by_name.items() if spec.tool is not None or not is_tool}
        return list(dict.fromkeys(spelled[m] for m in get_close_matches(name.lower(), spelled, n=3)))

    def __iter__(self) -> Iterator[AnySpec]:
        """Iterate over all specs, without duplicates, by name."""
        self._load_all()
        return iter(sorted({id(s): s for s in self._by_name.values()}.values(), key=lambda s: s.name.lower()))

    def _add_sources(self) -> None:
        with self._loading:
            find_more, self._find_more = self._find_more, dict[str, Source]
            self._sources |= find_more()

    def _load_all(self) -> None:
        self._add_sources()
        self._load(*self._sources)

    def _load(self, *keys: str) -> None:
        # Canvases are compiled in threads, so a lookup waits until all sources for its name are loaded.
        with self._loading:
            for key in keys:
                if (source := self._sources.pop(key, None)) is not None:
                    self._add_all(source)

    def _add_all(self, source: Source) -> None:
        for spec in source():
            if isinstance(spec, BrokenSpec):
                logger.warning("%s", spec.error)
                self._broken[spec.name.lower()] = spec
                continue
            try:
                self._put(spec)
            except ValueError as error:
                raise SettingsError(
                    f"{error} Two installed packages provide it, or one uses a built-in name."
                ) from None

    def _put(self, spec: AnySpec, *, replace: bool = False) -> None:
        for name in (spec.name, *spec.aliases):
            existing = self._by_name.get(name.lower())
            if existing is not None and existing is not spec and not replace:
                raise ValueError(f"The component name {name!r} is taken by {existing.name!r}; choose another name.")
            self._by_name[name.lower()] = spec
