"""What an integration adds to the core, and how it is found.

A distribution declares an `Integration` by an entry point in the group ``ragflow_lg.integrations``, as this one does
for the folders of `ragflow_lg.integrations`. The value is in the face of the integration's package, and names
everything else as ``.module:name``, which is imported when it is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct, convert, field, to_builtins

from ragflow_lg.base.diagnostics import Finding
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.base.extras import (
    describe_entry_point,
    describe_error,
    extra_of,
    find_entry_points,
    install_command,
    load_entry_point,
    load_named,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.metadata import EntryPoint

GROUP = "ragflow_lg.integrations"

BUILT_IN = sorted(file.stem for file in Path(__file__).parents[1].joinpath("components").glob("[!_]*.py"))
"""The modules of the core's components, each named after its component in snake case."""

CORE_NAMES = {
    "component": f"{' '.join(BUILT_IN).replace('_', '')} fillup parallel searchmydataset search_my_dataset "
    "search_my_dateset",
    "section": "agents canvases checkpoint_durability checkpoint_prefix checkpoint_ttl_s checkpoints compat crawler "
    "default_model embeddings encryption_keys http limits models otel pauses prompts "
    "providers queue rerankers retention run server tenants tools "
    "chat_settings compatibility default_embedding embedding_settings http_settings known_embedding known_reranker "
    "for_model override_model permits restrict secrets section shared shared_patterns store_options tenant "
    "tool_servers tool_settings",
    "need": "address canvas key mcp_server model package parameter",
    "command": "canvas chat check components continue doctor init keys models needs prompts resume run "
    "schedules serve sessions settings trust worker",
    "prompt": "categorize categorize_message structured_output structured_output_correction citation_guidelines "
    "add_citations missing_citations standalone_question metadata_filter translation react react_retry "
    "task_analysis plan_generation plan_request reflection context_summary context_ranking research_step "
    "research_request research_repetition research_summary research_report final_answer style",
}
"""The names that integrations cannot have. They are written down, because importing what has them takes long."""


DOCUMENT_PARSER = "ragflow_lg.services.services:DocumentParser"

CORE_PROTOCOLS = {
    "documents": "ragflow_lg.services.reports:Reports",
    "knowledge": "ragflow_lg.services.knowledge:Knowledge",
    "mcp": "ragflow_lg.services.tool_policies:ToolServers",
    "memories": "ragflow_lg.services.memories:Memories",
    "openapi": "ragflow_lg.services.tool_policies:ToolServers",
    "speech": "ragflow_lg.services.speech:Speech",
    "sql": "ragflow_lg.services.databases:Databases",
}
"""The services of integrations that the core asks for as well."""


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
    usual_name: str = ""
    """The name in these settings if the canvas names none."""


class Command(NamedTuple):
    """A subcommand of ``ragflow-lg``: its heading in the help, its function or group, and its first sentence.

    The name ``GROUP NAME`` puts it into a group.
    """

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
    """The classes of sections, by their names in the settings, or ``dict[str, CLASS]`` for ``[SECTION.NAME]``."""
    services: tuple[Service, ...] = ()
    stores: Mapping[str, str] = field(default_factory=dict[str, str])
    """Modules that open datasets, by the kind of server that ``[knowledge] url`` begins with."""
    needs: Mapping[str, NeedKind] = field(default_factory=dict[str, NeedKind])
    probe: str = ""
    """An async function for `ragflow-lg doctor`: it gets the settings and returns a list of results."""

    commands: Mapping[str, Command] = field(default_factory=dict[str, Command])
    routes: tuple[str, ...] = ()
    """Routers of FastAPI, for `ragflow-lg serve`."""
    prompts: Mapping[str, str] = field(default_factory=dict[str, str])
    """The values of `ragflow_lg.models.prompt_texts.EnginePrompt`, by the names that ``[prompts]`` has for them."""

    def load(self, place: str) -> Any:
        """Import a module, or what ``.module:name`` names.

        Raises:
            SettingsError: if it cannot be imported.
        """
        module, _, name = place.partition(":")
        try:
            found = import_module(module, self.package)
            return getattr(found, name) if name else found
        except SettingsError:
            raise
        except (Exception, SystemExit) as error:  # importing foreign code may raise anything
            raise self.blame(place, error) from error

    def blame(self, place: str, error: BaseException) -> SettingsError:
        """Return an error that names the place in the package that has raised another one."""
        extra = extra_of(error.name) if isinstance(error, ModuleNotFoundError) else ""
        advice = f"Install it with: {install_command(extra)}" if extra else "Repair or uninstall the package."
        return SettingsError(
            f"{place} of the integration {self.package} cannot be used: {describe_error(error)}. {advice}"
        )

    def section_fields(self) -> dict[str, Any]:
        """Return the sections with their defaults, as fields of a model."""
        kinds = {name: self.load(place) for name, place in self.sections.items()}
        return {name: (kind, kind()) for name, kind in kinds.items()}

    def names(self) -> Iterator[tuple[str, str]]:
        """Yield the names that only one integration can have, each with the kind of what it names."""
        kinds = {"component": self.components, "section": self.sections, "need": self.needs, "command": self.commands}
        kinds["prompt"] = self.prompts
        kinds |= {"store": self.stores}
        return ((kind, name.lower()) for kind, names in kinds.items() for name in names)


class Found(NamedTuple):
    """The integrations in this installation, and why others cannot be used."""

    integrations: Mapping[str, Integration]
    missing: Mapping[str, SettingsError]


def find_integrations() -> Found:
    """Return the integrations of all distributions on ``sys.path``, by the names of their entry points.

    This distribution comes first. What is missing of other distributions has their names as well.
    """
    return _load_all(tuple(find_entry_points(GROUP)))


def parses_documents() -> bool:
    """Return whether an integration parses files, such as scanned pages."""
    found = find_integrations().integrations.values()
    return any(service.protocol == DOCUMENT_PARSER for each in found for service in each.services)


def layout_findings(layout_recognize: str | None) -> Iterator[Finding]:
    """Yield a finding if a canvas chooses one of RAGFlow's parsers for files, and no integration parses files."""
    is_plain = (layout_recognize or "").strip().lower() in ("", "plain text", "naive")
    if layout_recognize and not is_plain and not parses_documents():
        message = f"layout_recognize {layout_recognize[:40]!r} has no effect: scanned pages and images have no text."
        hint = "Send files with text, give images to a model with visual_files_var, or install a parser of documents."
        yield Finding("params-unsupported", "info", ("layout_recognize",), message, hint)


def need_kinds() -> Mapping[str, NeedKind]:
    """Return the kinds of needs that integrations know."""
    return {kind: need for each in find_integrations().integrations.values() for kind, need in each.needs.items()}


def find_services() -> Iterator[tuple[Any, Service, Integration]]:
    """Yield the services with their Protocols. Nothing can ask for those whose Protocol cannot be imported."""
    for integration in find_integrations().integrations.values():
        for service in integration.services:
            try:
                protocol = integration.load(service.protocol)
            except SettingsError:
                continue
            yield protocol, service, integration


def load_store(kind: str) -> Any:
    """Return the module that opens the datasets of a kind of server.

    Raises:
        SettingsError: if no integration has one, or it cannot be imported.
    """
    found = find_integrations()
    for integration in found.integrations.values():
        if kind in integration.stores:
            return integration.load(integration.stores[kind])
    missing = found.missing.get(kind) or found.missing.get("knowledge")  # which has more than one kind
    raise missing or SettingsError(f"There is no integration for datasets of {kind}.")


def missing_services() -> Mapping[Any, SettingsError]:
    """Return why services that the core asks for are missing, by their Protocols."""
    missing = find_integrations().missing
    return {load_named(place, name): missing[name] for name, place in CORE_PROTOCOLS.items() if name in missing}


def recorded_protocols() -> Mapping[Any, str]:
    """Return the Protocols of services whose answers a recording has, with their names in it."""
    return {protocol: service.recorded_as for protocol, service, _ in find_services() if service.recorded_as}


@lru_cache(maxsize=1)
def _load_all(entry_points: tuple[EntryPoint, ...]) -> Found:
    integrations: dict[str, Integration] = {}
    missing: dict[str, SettingsError] = {}
    taken = {(kind, name): "ragflow-lg" for kind, names in CORE_NAMES.items() for name in names.split()}
    for entry_point in sorted(entry_points, key=lambda each: not _is_own(each)):
        try:
            integrations[entry_point.name] = _accept(entry_point, taken)
        except SettingsError as error:
            package = entry_point.dist.name if entry_point.dist else "?"
            name = entry_point.name if _is_own(entry_point) else f"{entry_point.name} of {package}"
            missing[name] = _explain(entry_point, error)
    return Found(integrations, missing)


def _is_own(entry_point: EntryPoint) -> bool:
    return entry_point.dist is not None and entry_point.dist.name == "ragflow-lg"


def _accept(entry_point: EntryPoint, taken: dict[tuple[str, str], str]) -> Integration:
    """Return an integration, whose names are taken from now on."""
    integration = load_entry_point(entry_point, "integration")
    described = f"the integration {describe_entry_point(entry_point)}"
    if not _is_own(entry_point):
        _check(integration, described)
    names = [("integration", entry_point.name), *integration.names()]
    for kind, name in names:
        if owner := taken.get((kind, name)):
            raise SettingsError(f"The {kind} {name!r} of {described} is taken by {owner}. Rename it, or uninstall one.")
    taken.update(dict.fromkeys(names, described))
    return integration


def _check(integration: Any, described: str) -> None:
    """Raise an error if a value is not an integration, or if its sections cannot be fields of the settings."""
    try:
        if not isinstance(integration, Integration):
            raise TypeError(f"{type(integration).__name__} is not Integration")
        convert(to_builtins(integration), Integration)
        if integration.sections:
            from pydantic import create_model  # `check` does not need it

            create_model("Sections", **integration.section_fields())
    except (Exception, SystemExit) as error:  # foreign code may raise anything
        raise SettingsError(f"T{described[1:]} is wrong: {describe_error(error)}.") from error


def _explain(entry_point: EntryPoint, error: SettingsError) -> SettingsError:
    """Return the error, or the command that installs a package that is only declared, with its extra."""
    cause, extras = error.__cause__, ",".join(entry_point.extras)
    if not extras or not _is_own(entry_point) or not isinstance(cause, ModuleNotFoundError):
        return error
    if not f"{entry_point.module}.".startswith(f"{cause.name}."):
        return error
    command = install_command(extras)
    return SettingsError(f"The integration {entry_point.name} is not installed. Install it with: {command}")
