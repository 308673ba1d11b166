from __future__ import annotations

from pathlib import Path

import pytest

from ragflow_lg.adapters.http.http_client import HttpSettings
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.settings import load_settings
from tests.server.settings.files import FULL, write


def test_which_file_counts(home: Path, monkeypatch: pytest.MonkeyPatch):
    def named(name: str) -> str:
        return f'default_model = "{name}"'

    write(home / ".config/ragflow-lg/settings.toml", named("home"))
    assert load_settings().default_model == "home"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "xdg"))
    assert load_settings().default_model == "demo"
    write(home / "xdg/ragflow-lg/settings.toml", named("xdg"))
    assert load_settings().default_model == "xdg"
    write(home / "work/ragflow-lg.toml", named("folder"))
    assert load_settings().default_model == "folder"
    monkeypatch.setenv("RAGFLOW_LG_SETTINGS", str(write(home / "v.toml", named("variable"))))
    assert load_settings().default_model == "variable"
    assert load_settings(write(home / "a.toml", named("argument"))).default_model == "argument"


def test_the_environment_goes_first(home: Path, monkeypatch: pytest.MonkeyPatch):
    file = write(home / "s.toml", FULL)
    monkeypatch.setenv("RAGFLOW_LG_DEFAULT_MODEL", "small")
    monkeypatch.setenv("RAGFLOW_LG_HTTP__TIMEOUT_S", "5")
    monkeypatch.setenv("RAGFLOW_LG_HTTP__ALLOW", '["a.example"]')
    settings = load_settings(file)
    assert settings.default_model == "small"
    assert settings.http_settings == HttpSettings(("a.example",), 5.0, 1000, 2)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("defaultmodel = 'x'", "defaultmodel: there is no such setting. Did you mean 'default_model'?"),
        ("zzz = 1", "zzz: there is no such setting."),
        ("[http]\ntimeout = 1", "http.timeout: there is no such setting. Did you mean 'timeout_s'?"),
        ("[providers.A]\napikey = 'geheim'", "providers.A.apikey: there is no such setting. Did you mean 'api_key'?"),
        ("[models.m]\nvision = true", "models.m.vision: there is no such setting. Did you mean 'has_vision'?"),
        ("[tools.tavily]\napikey = 'geheim'", "tools.tavily.apikey: there is no such setting. Did you mean 'api_key'?"),
        ("[tools.tavily]\napi_key = ['geheim']", "tools.tavily.api_key: "),
        ("[tools.tavily]\nendpoint = 'geheim.example'", "tools.tavily.endpoint: "),
        ("[tools]\ntavily = 'geheim'", "tools.tavily: "),
        ("[http]\nconcurrency = 0", "http.concurrency: "),
        ("[providers.A]\napi_key = ['geheim']", "providers.A.api_key: "),
        ("http = 'geheim'", "http: "),
        ("[mcp.a]\nurls = 'geheim'", "mcp.a.urls: there is no such setting. Did you mean 'url'?"),
        ("[mcp.a]", "mcp.a: Value error, set either url or command."),
        ("[mcp.a]\nurl = 'http://geheim/'\ncommand = 'c'", "mcp.a: Value error, set either url or command."),
        ("[mcp.a]\nurl = 'http://geheim/'\ntype = 'stdio'", "type stdio goes with command"),
        ("[mcp.a]\ncommand = 'c'\ntype = 'sse'", "sse and streamable-http with url"),
        ("[mcp.a]\ncommand = 'c'\ntype = 'geheim'", "mcp.a.type: "),
        ("a = 1\nb = = 'geheim'", "is not TOML: Invalid value (at line 2"),
    ],
)
def test_wrong_files(home: Path, text: str, says: str):
    file = write(home / "s.toml", text)
    with pytest.raises(SettingsError) as caught:
        load_settings(file)
    assert says in str(caught.value)
    assert str(file) in str(caught.value)
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("RAGFLOW_LG_HTTP__CONCURRENCY", "geheim", "http.concurrency (RAGFLOW_LG_HTTP__CONCURRENCY): "),
        ("RAGFLOW_LG_HTTP__TIMEOUT", "1", "http.timeout (RAGFLOW_LG_HTTP__TIMEOUT): there is no such setting."),
        ("RAGFLOW_LG_HTTP__TIMEOUT", "1", "'timeout_s'"),
        ("RAGFLOW_LG_HTTP", '{"concurrency": "geheim"}', "http.concurrency (RAGFLOW_LG_HTTP): "),
        ("RAGFLOW_LG_PROVIDERS", "{geheim", "environment: RAGFLOW_LG_PROVIDERS holds no JSON"),
        ("RAGFLOW_LG_DEFAULTMODEL", "geheim", "Did you mean RAGFLOW_LG_DEFAULT_MODEL?"),
    ],
)
def test_wrong_variables(monkeypatch: pytest.MonkeyPatch, name: str, value: str, says: str):
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as caught:
        load_settings()
    assert says in str(caught.value)
    assert "geheim" not in str(caught.value)


def test_files_that_cannot_be_read(home: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(SettingsError, match="--settings"):
        load_settings(home / "none.toml")
    (home / "bytes.toml").write_bytes(b"a = '\xff'")
    with pytest.raises(SettingsError, match="UTF-8"):
        load_settings(home / "bytes.toml")
    monkeypatch.setenv("RAGFLOW_LG_SETTINGS", str(home / "none.toml"))
    with pytest.raises(SettingsError, match="RAGFLOW_LG_SETTINGS"):
        load_settings()


@pytest.mark.skipif(not Path("/proc/self/mem").is_file(), reason="needs a file that exists and cannot be read")
def test_a_file_that_fails_while_it_is_read():
    with pytest.raises(SettingsError, match="cannot be read"):
        load_settings(Path("/proc/self/mem"))


@pytest.mark.parametrize("text", ["a = " + "[" * 5000 + "]" * 5000, "a = " + "9" * 5000])
def test_a_file_that_cannot_be_taken_in_is_an_error(tmp_path: Path, text: str) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(text)
    with pytest.raises(SettingsError, match="cannot be read"):
        load_settings(file)


def test_a_home_that_nobody_has() -> None:
    with pytest.raises(SettingsError, match="does not exist"):
        load_settings(Path("~nosuchuser/settings.toml"))


def test_rules_for_tools_and_paths_that_begin_at_the_file(home: Path) -> None:
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
