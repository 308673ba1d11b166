"""Settings from file and environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragflow_lg.adapters.chat_models import ChatModelSettings, ModelSettings, ProviderSettings
from ragflow_lg.adapters.http_client import HttpSettings
from ragflow_lg.adapters.mcp_servers import McpServerSettings
from ragflow_lg.errors import SettingsError
from ragflow_lg.services import ToolSettings
from server.settings import ProviderSection, Settings, load_settings

FULL = """
default_model = "big@Acme"
checkpoints = "memory://"

[providers.Acme]
base_url = "https://acme.example/v1"
api_key = "geheim-1"
models = ["big", "small"]
timeout_s = 9

[providers.Other]
base_url = "https://other.example/v1"
api_key_env = "OTHER_KEY"

[models."big@Acme"]
context_tokens = 1000
has_vision = true

[http]
allow = ["wiki.example", "10.0.0.0/8:80"]
timeout_s = 30
max_response_bytes = 1000
concurrency = 2

[mcp.tickets]
url = "https://tickets.example/mcp?key=$key"
headers = { Authorization = "Bearer $token" }
variables = { token = "geheim-3" }
variables_env = { key = "OTHER_KEY" }
allow = ["find"]
timeout_s = 20

[mcp."a b"]
command = "files-server"
args = ["--root", "/srv"]
env = { TOKEN = "geheim-4" }

[run]
event_limit = 16
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder with an empty home and no variables."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "OTHER_KEY", "RAGFLOW_LG_SETTINGS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def test_defaults():
    settings = load_settings()
    assert settings.default_model == "demo"
    assert settings.checkpoints.startswith("sqlite:///")
    assert settings.http_settings == HttpSettings()
    assert settings.chat_settings() == ChatModelSettings()
    assert settings.run.event_limit == 256


def test_a_whole_file(home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OTHER_KEY", "geheim-2")
    settings = load_settings(write(home / "s.toml", FULL))
    acme, other = settings.providers["Acme"].key(), settings.providers["Other"].key()
    assert acme is not None
    assert other is not None
    assert (acme.get_secret_value(), other.get_secret_value()) == ("geheim-1", "geheim-2")
    assert settings.chat_settings(override_model="demo") == ChatModelSettings(
        default_model="big@Acme",
        override_model="demo",
        providers={
            "Acme": ProviderSettings("https://acme.example/v1", "geheim-1", ("big", "small"), 9.0, 120.0),
            "Other": ProviderSettings("https://other.example/v1", "geheim-2", key_variable="OTHER_KEY"),
        },
        models={"big@Acme": ModelSettings(context_tokens=1000, has_vision=True)},
    )
    assert settings.http_settings == HttpSettings(("wiki.example", "10.0.0.0/8:80"), 30.0, 1000, 2)
    assert settings.run.event_limit == 16
    assert settings.mcp_settings() == {
        "tickets": McpServerSettings(
            "streamable-http",
            url="https://tickets.example/mcp?key=$key",
            headers={"Authorization": "Bearer $token"},
            variables={"token": "geheim-3", "key": "geheim-2"},
            allow=("find",),
            timeout_s=20.0,
        ),
        "a b": McpServerSettings("stdio", "files-server", ("--root", "/srv"), {"TOKEN": "geheim-4"}),
    }
    assert "geheim" not in repr(settings.mcp_settings())
    assert "geheim" not in repr(settings) + str(settings) + settings.model_dump_json()


TOOLS = """
[tools.tavily]
api_key = "geheim-1"

[tools.SerpApi]
api_key_env = "OTHER_KEY"

[tools.wikipedia]
endpoint = " https://wiki.example/w/api.php"

[tools.github]
"""


def test_tools(home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OTHER_KEY", "geheim-2")
    settings = load_settings(write(home / "s.toml", TOOLS))
    assert settings.tool_settings == ToolSettings(
        {"wikipedia": "https://wiki.example/w/api.php"}, {"tavily": "geheim-1", "serpapi": "geheim-2"}
    )
    shown = repr(settings) + str(settings) + settings.model_dump_json() + repr(settings.tool_settings)
    assert "geheim" not in shown
    assert Settings().tool_settings == ToolSettings()


def test_tools_of_the_environment(home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OTHER_KEY", raising=False)
    monkeypatch.setenv("RAGFLOW_LG_TOOLS__TAVILY__API_KEY", "12345")
    monkeypatch.setenv("RAGFLOW_LG_TOOLS__ARXIV__ENDPOINT", "http://127.0.0.1:80")
    found = load_settings(write(home / "s.toml", TOOLS)).tool_settings
    assert (found.key("tavily"), found.key("serpapi"), found.key("github")) == ("12345", "", "")
    assert set(found.endpoints) == {"wikipedia", "arxiv"}


def test_keys_that_are_missing():
    settings = Settings(providers={"A": ProviderSection(), "B": ProviderSection(api_key_env="OTHER_KEY")})
    assert [provider.api_key for provider in settings.chat_settings().providers.values()] == ["", ""]


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


def test_all_keys_are_known_as_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "key-of-the-environment")
    settings = Settings.model_validate(
        {
            "providers": {"A": {"api_key": "key-of-a-provider"}, "B": {"api_key_env": "SOME_KEY"}, "C": {}},
            "tools": {"tavily": {"api_key": "key-of-a-tool"}},
        }
    )
    assert settings.secrets == ("key-of-a-provider", "key-of-the-environment", "key-of-a-tool")
