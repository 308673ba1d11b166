from __future__ import annotations

import pytest

from ragflow_lg.server.settings.environment import unknown_variables, variable_of


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("RAGFLOW_LG_DEFAULTMODEL", "DEFAULTMODEL: there is no such setting. Did you mean RAGFLOW_LG_DEFAULT_MODEL?"),
        ("ragflow_lg_htp__Timeout_s", "Did you mean RAGFLOW_LG_HTTP__Timeout_s?"),
        ("RAGFLOW_LG_ZZZ", "RAGFLOW_LG_ZZZ: there is no such setting. Unset it, or correct its name."),
        ("RAGFLOW_LG_SETTING", "Did you mean RAGFLOW_LG_SETTINGS?"),
    ],
)  # fmt: skip
def test_a_variable_that_is_no_setting_is_told_with_a_near_name(
    monkeypatch: pytest.MonkeyPatch, name: str, says: str
) -> None:
    monkeypatch.setenv(name, "geheim")
    (told,) = unknown_variables(["default_model", "http"])
    assert says in told
    assert "geheim" not in told


def test_settings_and_other_variables_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RAGFLOW_LG_HTTP__X", "ragflow_lg_default_model", "RAGFLOW_LG_SETTINGS", "RAGFLOW_LG", "OTHER"):
        monkeypatch.setenv(name, "x")
    assert unknown_variables(["default_model", "http"]) == []


def test_the_variable_of_a_place_is_the_nearest_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert variable_of(["http", "timeout_s"]) == ""
    monkeypatch.setenv("RAGFLOW_LG_HTTP", "{}")
    assert variable_of(["http", "timeout_s"]) == "RAGFLOW_LG_HTTP"
    monkeypatch.setenv("ragflow_lg_http__timeout_s", "5")
    assert variable_of(["http", "timeout_s"]) == "ragflow_lg_http__timeout_s"
    assert variable_of(["http", "allow", 0]) == "RAGFLOW_LG_HTTP"
