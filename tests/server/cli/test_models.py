import asyncio
import re
import tomllib
from pathlib import Path

import pytest

from ragflow_lg.base import extras
from tests.fakes.mock_llm import MockLLM, reply
from tests.fakes.model_wires.ollama_wire import OllamaWire
from tests.fakes.model_wires.wire import Reply, serving_wire
from tests.server.cli.command import invoke


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("DEEPSEEK_API_KEY", "geheim-9")
    path = tmp_path / "s.toml"
    path.write_text("[providers.Local]\nbase_url = 'http://127.0.0.1:9/v1'\nmodels = ['tiny']\n")
    return {"RAGFLOW_LG_SETTINGS": str(path)}


def test_models_and_providers_are_listed_without_keys(environment: dict[str, str]) -> None:
    output = invoke("models", "list", environment=environment).stdout
    assert output.splitlines() == [
        "demo  chat  default",
        "tiny@Local  chat",
        "…@Local  [providers] in the settings",
        "…@DeepSeek  key from DEEPSEEK_API_KEY",
    ]


def test_all_known_providers_are_listed() -> None:
    lines = invoke("models", "providers").stdout.splitlines()
    assert "DeepSeek  chat  DEEPSEEK_API_KEY  https://api.deepseek.com/v1" in lines
    assert "Ollama  chat, embedding, vision  no key  http://localhost:11434/v1" in lines
    assert any(line.startswith("Replicate  not available: ") for line in lines)
    assert len(lines) > 70
    anthropic = next(line for line in lines if line.startswith("Anthropic  "))
    assert re.search(r"ANTHROPIC_API_KEY  https://api.anthropic.com  pip install '.*\[anthropic\]'$", anthropic)


def test_a_missing_package_is_listed_with_its_command(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "geheim-10")
    assert "…@Anthropic  key from ANTHROPIC_API_KEY\n" in invoke("models", "list", environment=environment).stdout
    monkeypatch.setitem(extras.EXTRAS, "anthropic", ("no_such_package",))
    output = invoke("models", "list", environment=environment).stdout
    assert re.search(r"…@Anthropic .* not usable: Anthropic's API needs no_such_package\. .*\[anthropic\]'", output)
    tested = invoke("models", "test", "claude-sonnet-4-6@Anthropic", environment=environment).stdout
    assert tested.startswith("fails  claude-sonnet-4-6@Anthropic  chat  Anthropic's API needs no_such_package.")


def test_a_file_of_variables_that_is_not_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / ".env").write_text("GROQ_API_KEY=geheim-11\n")
    result = invoke("models", "list")
    assert "Groq" not in result.stdout
    assert ".env is not read, because the folder is not trusted" in result.stderr


async def test_models_of_a_family_are_asked_once(tmp_path: Path) -> None:
    async with serving_wire(OllamaWire(), Reply(("ready",))) as (stub, address):
        providers = f"[providers.Ollama]\nbase_url = '{address}'\n[embeddings.'nomic@Ollama']\nbase_url = '{address}'\n"
        (tmp_path / "s.toml").write_text(f"default_model = 'qwen3:8b@Ollama'\n{providers}")
        result = await asyncio.to_thread(invoke, "models", "test", "--settings", "s.toml")
        chat, told, *settings = result.stdout.splitlines()
        settings, others = settings[:4], settings[4:]
        assert [line.split("  ")[0:3] for line in (chat, *others)] == [
            ["ok", "qwen3:8b@Ollama", "chat"],
            ["ok", "demo", "chat"],
            ["ok", "nomic@Ollama", "embedding"],
        ]
        assert told == "      a window of 4,096 tokens, no images, tools, thinking; to keep this:"
        kept = tomllib.loads("\n".join(settings))["models"]["qwen3:8b@Ollama"]
        assert kept == {"context_tokens": 4096, "has_vision": False, "has_tools": True}
        assert [call.path for call in stub.received] == ["/api/chat", "/api/ps", "/api/show", "/api/embed"]


def test_a_model_that_does_not_work_is_reported(environment: dict[str, str]) -> None:
    result = invoke("models", "test", environment=environment)
    ok, fails = result.stdout.splitlines()
    assert result.exit_code == 1
    assert ok.startswith("ok  demo  chat  0.")
    assert fails.startswith("fails  tiny@Local  chat  ")
    unknown = invoke("models", "test", "x@Nowhere", environment=environment)
    assert "there is no provider 'Nowhere'" in unknown.stdout


async def test_a_silent_model_is_given_up(tmp_path: Path) -> None:
    async with MockLLM([reply("late", delay_s=20)]) as llm:
        path = tmp_path / "s.toml"
        path.write_text(f"default_model = 'm@Local'\n[providers.Local]\nbase_url = '{llm.base_url}'\n")
        settings = {"RAGFLOW_LG_SETTINGS": str(path)}
        result = await asyncio.to_thread(invoke, "models", "test", "m@Local", "--timeout", "1", environment=settings)
    assert result.exit_code == 1
    assert result.stdout == "fails  m@Local  chat  It did not answer in 1 s.\n"
