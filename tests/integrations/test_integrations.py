"""What the integrations declare exists, and theirs is all that they have."""

import re
from importlib.metadata import EntryPoint, distribution
from pkgutil import iter_modules
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

import ragflow_lg.integrations as folder
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.base.extras import load_named
from ragflow_lg.catalog import find_specs
from ragflow_lg.component.integration import CORE_PROTOCOLS, GROUP, Integration, find_integrations, load_store
from ragflow_lg.models.prompt_texts import EnginePrompt
from ragflow_lg.server.assembly.canvas_needs import OWNERS
from ragflow_lg.server.assembly.open_services import open_integrations
from ragflow_lg.server.settings import Settings
from tests.fakes.services import fake_services
from tests.harness.rows import each_row

FOUND = find_integrations()


def test_every_folder_is_declared() -> None:
    assert {module.name for module in iter_modules(folder.__path__)} == FOUND.integrations.keys()
    assert FOUND.missing == {}
    probed = {name for name, integration in FOUND.integrations.items() if integration.probe}
    assert probed == {"a2a", "browser", "code", "documents", "email", "knowledge", "mcp", "openapi", "sql"}


@each_row("integration", FOUND.integrations.values())
def test_it_has_what_it_declares(integration: Integration) -> None:
    for place in set(integration.components.values()):
        named = {name for name, module in integration.components.items() if module == place}
        assert {spec.name for spec in find_specs(integration.load(place))} == named
    for place in integration.prompts.values():
        assert isinstance(integration.load(place), EnginePrompt)
    services = [place for service in integration.services for place in (service.protocol, service.open)]
    needs = [need.find_problem for need in integration.needs.values()]
    for place in [*integration.sections.values(), *services, *needs, *integration.stores.values(), integration.probe]:
        assert not place or integration.load(place), place


def test_the_core_knows_what_it_asks_for() -> None:
    declared = {(name, service.protocol) for name, each in FOUND.integrations.items() for service in each.services}
    assert {(name, place) for name, place in declared if place.startswith("ragflow_lg.services.")} == {
        *CORE_PROTOCOLS.items()
    }
    needs = {kind: (name, need) for name, each in FOUND.integrations.items() for kind, need in each.needs.items()}
    assert {kind: (needs[kind][0], needs[kind][1].label, needs[kind][1].code) for kind in OWNERS} == OWNERS


@each_row("name", CORE_PROTOCOLS)
async def test_the_core_says_what_to_install(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    removed = EntryPoint(name, f"ragflow_lg.removed.{name}:INTEGRATION [extra]", GROUP)
    vars(removed).update(dist=distribution("ragflow-lg"))
    monkeypatch.setattr("ragflow_lg.component.integration.find_entry_points", Mock(return_value=[removed]))
    message = re.escape(f"{name} is not installed. Install it with: ")
    async with open_integrations(Settings(), replace(fake_services(), integrations={})) as services:
        with pytest.raises(SettingsError, match=message):
            services.of(load_named(CORE_PROTOCOLS[name], name))
    for kind in FOUND.integrations[name].stores:
        with pytest.raises(SettingsError, match=message):
            load_store(kind)
