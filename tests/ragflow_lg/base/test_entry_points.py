import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from ragflow_lg.base.entry_points import load_entry_point
from ragflow_lg.base.errors import SettingsError


def test_an_entry_point_is_loaded() -> None:
    assert load_entry_point(EntryPoint("dumps", "json:dumps", "g"), "tool")([]) == "[]"


@pytest.mark.parametrize("value", ["no_such_module_here:x", "json:no_such_name", "ends_at_import:x"])
def test_the_error_names_the_entry_point_its_package_and_its_group(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ends_at_import.py").write_text("raise SystemExit('no\\nlicence')")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    message = r"'bad' of the installed package '\?' \(.*, group g\) cannot be loaded: \w+: "
    with pytest.raises(SettingsError, match=message):
        load_entry_point(EntryPoint("bad", value, "g"), "tool")
