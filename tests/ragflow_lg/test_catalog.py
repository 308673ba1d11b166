from importlib import metadata

import pytest

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.catalog import ENTRY_POINT_GROUP, FUNCTION_GROUP, load_catalog


def test_all_components_are_found() -> None:
    names = [spec.name for spec in load_catalog()]
    assert {"Begin", "Message", "LLM", "Switch", "Invoke"} <= set(names)
    assert names == sorted(names, key=str.lower)
    assert load_catalog().get("Parallel") is not None


def test_what_a_package_brings_and_cannot_harms_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = [
        metadata.EntryPoint("Bad", "no_such_module_here:bad", ENTRY_POINT_GROUP),
        metadata.EntryPoint("Odd", "json:dumps", ENTRY_POINT_GROUP),
        metadata.EntryPoint("Gone", "json:no_such_name", FUNCTION_GROUP),
        metadata.EntryPoint("Untyped", "os.path:basename", FUNCTION_GROUP),
    ]

    def entry_points(group: str) -> list[metadata.EntryPoint]:
        return [entry_point for entry_point in installed if entry_point.group == group]

    monkeypatch.setattr(metadata, "entry_points", entry_points)
    catalog = load_catalog()
    assert catalog.get("Mesage") is None
    assert catalog.near("Mesage")[0] == "Message"
    assert [broken.name for broken in catalog.broken] == ["Bad", "Odd", "Gone", "Untyped"]
    assert len(list(catalog)) > 20
    assert all("of the installed package" in str(broken.error) for broken in catalog.broken)
    says = {"bad": ENTRY_POINT_GROUP, "Odd": "not a component", "Gone": FUNCTION_GROUP, "Untyped": "no type"}
    for name in [*says, *says]:
        with pytest.raises(SettingsError, match=says[name]):
            catalog.get(name)
