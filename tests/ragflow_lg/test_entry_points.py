from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from ragflow_lg.entry_points import load_entry_point
from ragflow_lg.errors import SettingsError


def test_what_is_named_is_loaded() -> None:
    assert load_entry_point(EntryPoint("dumps", "json:dumps", "g"), "tool")([]) == "[]"


@pytest.mark.parametrize("value", ["no_such_module_here:x", "json:no_such_name"])
def test_what_cannot_be_loaded_is_named_with_its_package(value: str) -> None:
    with pytest.raises(SettingsError, match=r"The tool 'bad' of the installed package '\?' cannot be loaded"):
        load_entry_point(EntryPoint("bad", value, "g"), "tool")
