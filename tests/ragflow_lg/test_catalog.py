import sys
from importlib import metadata

import pytest

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.catalog import ENTRY_POINT_GROUP, FUNCTION_GROUP, load_catalog


def test_the_catalog_has_all_components_sorted_by_name() -> None:
    names = [spec.name for spec in load_catalog()]
    assert {"Begin", "Message", "LLM", "Switch", "Invoke"} <= set(names)
    assert names == sorted(names, key=str.lower)
    assert load_catalog().get("Parallel") is not None


def test_a_broken_package_does_not_affect_other_components(monkeypatch: pytest.MonkeyPatch) -> None:
    packages = [
        metadata.EntryPoint("Bad", "no_such_module_here:bad", ENTRY_POINT_GROUP),
        metadata.EntryPoint("Odd", "json:dumps", ENTRY_POINT_GROUP),
        metadata.EntryPoint("Gone", "json:no_such_name", FUNCTION_GROUP),
        metadata.EntryPoint("Untyped", "os.path:basename", FUNCTION_GROUP),
    ]

    monkeypatch.setattr(metadata, "entry_points", lambda: metadata.EntryPoints(packages))
    monkeypatch.setattr(sys, "path", [*sys.path, "elsewhere"])  # another path is scanned again
    catalog = load_catalog()
    assert catalog.get("Mesage") is None
    assert catalog.near("Mesage")[0] == "Message"
    assert [broken.name for broken in catalog.broken] == ["Bad", "Odd", "Gone", "Untyped"]
    assert len(list(catalog)) > 20
    assert all("of the installed package" in str(broken.error) for broken in catalog.broken)
    reasons = {"bad": ENTRY_POINT_GROUP, "Odd": "not a component", "Gone": FUNCTION_GROUP, "Untyped": "no type"}
    for name in [*reasons, *reasons]:
        with pytest.raises(SettingsError, match=reasons[name]):
            catalog.get(name)
