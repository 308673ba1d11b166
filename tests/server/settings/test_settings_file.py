import re
from pathlib import Path

import pytest

from ragflow_lg.adapters.http.http_settings import HttpSettings
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.dsl.compatibility import BEHAVIOURS
from ragflow_lg.server.cli.settings_list import as_markdown, find_settings
from ragflow_lg.server.settings import load_settings
from ragflow_lg.server.settings.trusted_folders import trust
from tests.harness.rows import each_row, read_rows
from tests.server.settings.files import FULL, write


def test_the_order_of_the_files(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def with_model(name: str) -> str:
        return f'default_model = "{name}"'

    write(home / ".config/ragflow-lg/settings.toml", with_model("home"))
    assert load_settings().default_model == "home"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "xdg"))
    assert load_settings().default_model == ""
    write(home / "xdg/ragflow-lg/settings.toml", with_model("xdg"))
    assert load_settings().default_model == "xdg"
    write(home / "work/ragflow-lg.toml", with_model("folder"))
    trust("settings", home / "work")
    assert load_settings().default_model == "folder"
    monkeypatch.setenv("RAGFLOW_LG_SETTINGS", str(write(home / "v.toml", with_model("variable"))))
    assert load_settings().default_model == "variable"
    assert load_settings(write(home / "a.toml", with_model("argument"))).default_model == "argument"


@each_row("value", ['"yes"', '"on"', "1", "2.5"])
def test_compatibility_is_true_or_false(home: Path, value: str) -> None:
    with pytest.raises(SettingsError, match=r"compat: all should be true or false, not .*, without quotes\.$"):
        load_settings(write(home / "s.toml", f"[compat]\nall = {value}"))


@each_row("value", ["https://shop.example/chat", "shop.example", "https://shop.example\\n", "https://a b"])
def test_a_frame_needs_an_origin(home: Path, value: str) -> None:
    good = '"*", "https://shop.example", "http://*.shop.example:*"'
    load_settings(write(home / "s.toml", f"[server]\nframe_origins = [{good}]"))
    with pytest.raises(SettingsError, match=r"frame_origins\.0.*: not an origin: write https://shop\.example or "):
        load_settings(write(home / "s.toml", f'[server]\nframe_origins = ["{value}"]'))


def test_the_environment_overrides_the_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(home / "s.toml", FULL)
    monkeypatch.setenv("RAGFLOW_LG_DEFAULT_MODEL", "small")
    monkeypatch.setenv("RAGFLOW_LG_HTTP__TIMEOUT_S", "5")
    monkeypatch.setenv("RAGFLOW_LG_HTTP__ALLOW", '["a.example"]')
    settings = load_settings(file)
    assert settings.default_model == "small"
    assert settings.http_settings == HttpSettings(("a.example",), 5.0, 1000)


@each_row(("text", "problem"), read_rows("settings_errors"))
def test_errors_in_files_are_reported_without_values(home: Path, text: str, problem: str) -> None:
    file = write(home / "s.toml", text)
    with pytest.raises(SettingsError) as caught:
        load_settings(file)
    assert problem in str(caught.value)
    assert str(file) in str(caught.value)
    assert "geheim" not in str(caught.value)


@each_row(
    ("name", "value", "problem"),
    [
        ("RAGFLOW_LG_HTTP__CONCURRENCY", "geheim", "http.concurrency (RAGFLOW_LG_HTTP__CONCURRENCY): "),
        ("RAGFLOW_LG_HTTP__TIMEOUT", "1", "http.timeout (RAGFLOW_LG_HTTP__TIMEOUT): unknown setting."),
        ("RAGFLOW_LG_HTTP__TIMEOUT", "1", "'timeout_s'"),
        ("RAGFLOW_LG_HTTP", '{"concurrency": "geheim"}', "http.concurrency (RAGFLOW_LG_HTTP): "),
        ("RAGFLOW_LG_PROVIDERS", "{geheim", "environment: RAGFLOW_LG_PROVIDERS is not valid JSON"),
        ("RAGFLOW_LG_DEFAULTMODEL", "geheim", "Did you mean RAGFLOW_LG_DEFAULT_MODEL?"),
        ("ragflow_lg_htp__Timeout_s", "geheim", "Did you mean RAGFLOW_LG_HTTP__Timeout_s?"),
        ("RAGFLOW_LG_ZZZ", "geheim", "RAGFLOW_LG_ZZZ: unknown setting. Unset it or correct its name."),
        ("RAGFLOW_LG_SETTING", "geheim", "Did you mean RAGFLOW_LG_SETTINGS?"),
    ],
)
def test_errors_in_variables_are_reported_without_values(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, problem: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as caught:
        load_settings()
    monkeypatch.delenv(name)
    assert problem in str(caught.value)
    assert "geheim" not in str(caught.value)


def test_unreadable_files_are_reported(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match="--settings"):
        load_settings(home / "none.toml")
    (home / "bytes.toml").write_bytes(b"a = '\xff'")
    with pytest.raises(SettingsError, match="UTF-8"):
        load_settings(home / "bytes.toml")
    monkeypatch.setenv("RAGFLOW_LG_SETTINGS", str(home / "none.toml"))
    with pytest.raises(SettingsError, match="RAGFLOW_LG_SETTINGS"):
        load_settings()


@each_row("text", ["a = " + "[" * 5000 + "]" * 5000, "a = " + "9" * 5000])
def test_a_file_beyond_the_parsers_limits_is_reported(tmp_path: Path, text: str) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(text)
    with pytest.raises(SettingsError, match="cannot be read"):
        load_settings(file)


def test_rules_for_tools_and_paths_relative_to_the_file(home: Path) -> None:
    file = home / "deep" / "s.toml"
    file.parent.mkdir()
    file.write_text(
        '[agents]\nallow_tools = ["Wiki*"]\ncache_tools = {Wikipedia = 60}\n'
        '[canvases]\nreport = "c/report.json"\nfar = "/far/a.json"\n'
    )
    settings = load_settings(file)
    assert settings.canvases == {"report": file.parent / "c" / "report.json", "far": Path("/far/a.json")}
    assert settings.permits.permits(["Wikipedia"])
    assert not settings.permits.permits(["TavilySearch"])
    assert settings.agents.cache_tools == {"Wikipedia": 60}
    file.write_text("[agents]\nallow_tool = []\n[canvases]\nreport = 3\n")
    with pytest.raises(SettingsError, match=r"(?s)Did you mean 'allow_tools'.*canvases.report"):
        load_settings(file)


def test_the_behaviours_of_ragflow(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = home / "s.toml"
    file.write_text("[compat]\nall = true\njinja_text = false\n")
    assert "jinja_text" not in load_settings(file).compatibility.names
    assert "unchecked_forms" in load_settings(file).compatibility.names
    monkeypatch.setenv("RAGFLOW_LG_COMPAT__JINJA_TEXT", "true")
    assert load_settings(file).compatibility.names == BEHAVIOURS
    monkeypatch.setenv("RAGFLOW_LG_COMPAT__RAGFLOW", "1.0")
    assert load_settings(file).compatibility.ragflow == "1.0"
    file.write_text("[compat]\nragflw = true\n")
    with pytest.raises(SettingsError, match="Did you mean 'ragflow'"):
        load_settings(file)
    monkeypatch.delenv("RAGFLOW_LG_COMPAT__RAGFLOW")
    for text, shown in (("1.0", "1.0"), ('"1"', "'1'"), ("true", "True"), ('"0.24"', "'0.24'")):
        file.write_text(f"[compat]\nragflow = {text}\n")
        with pytest.raises(SettingsError) as caught:
            load_settings(file)
        assert f'ragflow should be "0.27" or "1.0", not {shown}. Write "1.0", in quotes.' in str(caught.value)
    file.write_text('[compat]\nragflow = "v1.0.0-rc3"\n')
    assert load_settings(file).compatibility.ragflow == "1.0"


def test_prompts_are_texts_or_files_next_to_the_settings(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home / "conf/prompts/question.txt", "Rewrite: {conversation}\n")
    text = 'reflection = "Think."\nstandalone_question = { file = "prompts/question.txt" }'
    file = write(home / "conf/s.toml", f"[prompts]\n{text}")
    assert load_settings(file).prompts == {"reflection": "Think.", "standalone_question": "Rewrite: {conversation}\n"}
    monkeypatch.setenv("RAGFLOW_LG_PROMPTS__REFLECTION", "Think twice.")
    monkeypatch.setenv("RAGFLOW_LG_PROMPTS__STYLE", "ragflow")
    assert load_settings(file).prompts["reflection"] == "Think twice."
    assert load_settings(file).prompts["style"] == "ragflow"


@each_row(("text", "problem"), read_rows("prompt_errors"))
def test_problems_are_reported_at_the_start(home: Path, text: str, problem: str) -> None:
    (home / "bytes.txt").write_bytes(b"\xff")
    (home / "long.txt").write_text("x" * 300_000)
    head = "" if text.startswith("prompts") else "[prompts]\n"
    with pytest.raises(SettingsError) as failure:
        load_settings(write(home / "s.toml", head + text))
    assert problem in str(failure.value)


PAGE = (Path(__file__).parents[3] / "docs" / "settings.md").read_text("utf-8")


def test_the_page_has_the_list_of_the_command() -> None:
    assert PAGE.endswith("\n\n" + as_markdown(find_settings())), "ragflow-lg settings --output markdown"


def test_the_table_names_every_section() -> None:
    sections = {setting.section.strip("[]").partition(".")[0] for setting in find_settings() if setting.section}
    table = PAGE.partition("## All settings")[0]
    assert sections - set(re.findall(r"\[+(\w+)", table)) == set()
