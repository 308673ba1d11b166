from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from ragflow_lg.base.entry_points import load_entry_point
from ragflow_lg.base.errors import SettingsError


def test_what_is_named_is_loaded() -> None:
    assert load_entry_point(EntryPoint("dumps", "json:dumps", "g"), "tool")([]) == "[]"


@pytest.mark.parametrize("value", ["no_such_module_here:x", "json:no_such_name", "ends_at_import:x"])
def test_what_cannot_be_loaded_is_named_with_its_package_and_group(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ends_at_import.py").write_text("raise SystemExit('no\\nlicence')")
    monkeypatch.syspath_prepend(tmp_path)
    says = r"'bad' of the installed package '\?' \(.*, group g\) cannot be loaded: \w+: "
    with pytest.raises(SettingsError, match=says):
        load_entry_point(EntryPoint("bad", value, "g"), "tool")
