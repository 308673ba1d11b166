"""What the integrations declare exists, and theirs is all that they have."""

from ragflow_lg.catalog import find_specs
from ragflow_lg.component.integration import Integration, find_integrations
from tests.harness.rows import each_row

FOUND = find_integrations()


def test_every_folder_is_declared() -> None:
    from pkgutil import iter_modules

    import ragflow_lg.integrations as folder

    assert {module.name for module in iter_modules(folder.__path__)} == FOUND.integrations.keys()
    assert FOUND.missing == {}


@each_row("integration", FOUND.integrations.values())
def test_it_has_what_it_declares(integration: Integration) -> None:
    for place in set(integration.components.values()):
        named = {name for name, module in integration.components.items() if module == place}
        assert {spec.name for spec in find_specs(integration.load(place))} == named
    services = [place for service in integration.services for place in (service.protocol, service.open)]
    needs = [need.find_problem for need in integration.needs.values()]
    for place in [
        *integration.sections.values(),
        *services,
        *needs,
        *([integration.probe] if integration.probe else []),
    ]:
        assert callable(integration.load(place)), place
