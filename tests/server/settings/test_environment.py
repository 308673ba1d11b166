import pytest

from ragflow_lg.server.settings.environment import unknown_variables, variable_name


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("RAGFLOW_LG_DEFAULTMODEL", "DEFAULTMODEL: unknown setting. Did you mean RAGFLOW_LG_DEFAULT_MODEL?"),
        ("ragflow_lg_htp__Timeout_s", "Did you mean RAGFLOW_LG_HTTP__Timeout_s?"),
        ("RAGFLOW_LG_ZZZ", "RAGFLOW_LG_ZZZ: unknown setting. Unset it or correct its name."),
        ("RAGFLOW_LG_SETTING", "Did you mean RAGFLOW_LG_SETTINGS?"),
    ],
)  # fmt: skip
def test_an_unknown_variable_is_reported_with_a_similar_name(
    monkeypatch: pytest.MonkeyPatch, name: str, problem: str
) -> None:
    monkeypatch.setenv(name, "geheim")
    (line,) = unknown_variables(["default_model", "http"])
    assert problem in line
    assert "geheim" not in line


def test_settings_and_other_variables_are_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RAGFLOW_LG_HTTP__X", "ragflow_lg_default_model", "RAGFLOW_LG_SETTINGS", "RAGFLOW_LG", "OTHER"):
        monkeypatch.setenv(name, "x")
    assert unknown_variables(["default_model", "http"]) == []


def test_the_variable_of_a_place_is_the_most_specific_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert variable_name(["http", "timeout_s"]) == ""
    monkeypatch.setenv("RAGFLOW_LG_HTTP", "{}")
    assert variable_name(["http", "timeout_s"]) == "RAGFLOW_LG_HTTP"
    monkeypatch.setenv("ragflow_lg_http__timeout_s", "5")
    assert variable_name(["http", "timeout_s"]) == "ragflow_lg_http__timeout_s"
    assert variable_name(["http", "allow", 0]) == "RAGFLOW_LG_HTTP"
