"""What an integration adds to the core, and how it is found.

A distribution declares an `Integration` by an entry point in the group ``ragflow_lg.integrations``, as this one does
for the folders of `ragflow_lg.integrations`. The value is in the face of the integration's package, and names
everything else as ``.module:name``, which is imported when it is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct, field

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.base.extras import find_entry_points, install_command, load_entry_point

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "ragflow_lg.integrations"


class Service(NamedTuple):
    """A service that components get by its Protocol, with `ragflow_lg.services.services.Services.of`."""

    protocol: str
    open: str
    """An async context manager that yields the service. It gets the settings, and the services that are open."""
    recorded_as: str = ""
    """Its name in recordings, which play its answers; ``""`` if a replay opens it as well."""


class NeedKind(NamedTuple):
    """A kind of `ragflow_lg.component.spec.Requirement` that the integration knows."""

    label: str
    """What stands before the name, such as ``mail server``."""
    code: str
    """The diagnostic of `check` if it is missing."""
    find_problem: str
    """A function that gets the settings and the name, and returns what is missing and what to do, or ``""``."""
    section: str = ""
    """The settings that supply it, with ``{key}`` for the quoted name and ``{variable}`` for a variable's beginning."""


class Command(NamedTuple):
    """A subcommand of ``ragflow-lg``: its heading in the help, its function or group, and its first sentence."""

    heading: str
    place: str
    summary: str
    needs_arguments: bool = True
    """Whether it shows its help without any."""


class Integration(Struct, frozen=True):
    """What an integration adds. Values are ``.module:name`` in its package."""

    package: str
    components: Mapping[str, str] = field(default_factory=dict[str, str])
    """The modules of components and tools, by the names of these."""
    sections: Mapping[str, str] = field(default_factory=dict[str, str])
    """The classes of sections, by their names in the settings."""
    services: tuple[Service, ...] = ()
    needs: Mapping[str, NeedKind] = field(default_factory=dict[str, NeedKind])
    probe: str = ""
    """An async function for `ragflow-lg doctor`: it gets the settings and returns a list of results."""

    commands: Mapping[str, Command] = field(default_factory=dict[str, Command])

    def load(self, place: str) -> Any:
        """Import a module, or what ``.module:name`` names."""
        module, _, name = place.partition(":")
        found = import_module(module, self.package)
        return getattr(found, name) if name else found


class Found(NamedTuple):
    """The integrations in this installation, and why others cannot be loaded."""

    integrations: Mapping[str, Integration]
    missing: Mapping[str, SettingsError]


def find_integrations() -> Found:
    """Return the integrations of all distributions on ``sys.path``, by the names of their entry points."""
    return _load_all(tuple(find_entry_points(GROUP)))


def need_kinds() -> Mapping[str, NeedKind]:
    """Return the kinds of needs that integrations know."""
    return {kind: need for each in find_integrations().integrations.values() for kind, need in each.needs.items()}


def recorded_protocols() -> Mapping[Any, str]:
    """Return the Protocols of services whose answers a recording has, with their names in it."""
    return {
        integration.load(service.protocol): service.recorded_as
        for integration in find_integrations().integrations.values()
        for service in integration.services
        if service.recorded_as
    }


@lru_cache(maxsize=1)
def _load_all(entry_points: tuple[EntryPoint, ...]) -> Found:
    integrations: dict[str, Integration] = {}
    missing: dict[str, SettingsError] = {}
    for entry_point in entry_points:
        try:
            integrations[entry_point.name] = load_entry_point(entry_point, "integration")
        except SettingsError as error:
            missing[entry_point.name] = _explain(entry_point, error)
    return Found(integrations, missing)


def _explain(entry_point: EntryPoint, error: SettingsError) -> SettingsError:
    """Return the error, or the command that installs a package that is only declared, with its extra."""
    cause, extras = error.__cause__, ",".join(entry_point.extras)
    if not extras or not isinstance(cause, ModuleNotFoundError) or not entry_point.module.startswith(cause.name or "?"):
        return error
    command = install_command(extras)
    return SettingsError(f"The integration {entry_point.name} is not installed. Install it with: {command}")
