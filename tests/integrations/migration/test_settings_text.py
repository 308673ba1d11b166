import tomllib

from ragflow_lg.adapters.ragflow_api.remote_agents import RemoteMcpServer
from ragflow_lg.integrations.migration.settings_text import mcp_variables, write_list, write_settings
from ragflow_lg.server.settings import Settings
from ragflow_lg.server.settings.secret import Secret
from tests.harness.rows import each_row

URL = "https://r.example"
WEATHER = RemoteMcpServer(
    "3c", "Weather", "streamable-http", "https://u:pw@w.example/mcp?key=s3cret#x", ("authorization_token",), ("t",)
)


def test_the_settings_are_valid_and_without_secrets() -> None:
    text = write_settings(URL, "THEIR_KEY", [WEATHER], is_linked=True)
    settings = Settings(**tomllib.loads(text))
    assert settings.knowledge.url == "ragflow+https://r.example"
    assert settings.knowledge.api_key == Secret(env="THEIR_KEY")
    assert settings.mcp["3c"].url.get_secret_value() == "https://w.example/mcp"
    assert settings.mcp["3c"].variables == {"Authorization": Secret(env="RAGFLOW_MCP_WEATHER_AUTHORIZATION")}
    assert "s3cret" not in text
    assert "pw" not in text


HOSTILE = ('a"]\n[server]\nhost = "0.0.0.0', "x\u2028y\x00\x7f", "'''", "\\", "a]b[", "é" * 300, "")


@each_row("text", HOSTILE)
def test_hostile_names_stay_names(text: str) -> None:
    server = RemoteMcpServer(text or "id", text, "sse", f"https://w.example/{text}", (text, "X-Key", "PATH"), (text,))
    parsed = tomllib.loads(write_settings(URL, "THEIR_KEY", [server], is_linked=False))
    assert set(parsed) == {"mcp"}
    assert len(parsed["mcp"]) == 1
    assert all(variable.startswith("RAGFLOW_MCP_") for variable in mcp_variables(server).values())
    page = write_list({text: [text]}, [server], "", [text])
    assert "\x00" not in page
    assert not [line for line in page.splitlines() if line.startswith("[server]")]


@each_row(("kind", "url"), [("stdio", ""), ("sse", "file:///etc/passwd"), ("", "https://w.example")])
def test_only_servers_with_a_web_address_are_set_up(kind: str, url: str) -> None:
    text = write_settings(URL, "K", [RemoteMcpServer("a", "A", kind, url, (), ())], is_linked=False)
    assert tomllib.loads(text) == {}
    assert "left out" in text
