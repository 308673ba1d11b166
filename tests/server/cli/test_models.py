from pathlib import Path

import pytest

from tests.fakes.mock_llm import MockLLM, reply
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
        "tiny@Local  chat, vision",
        "…@Local  [providers] in the settings",
        "…@DeepSeek  key from DEEPSEEK_API_KEY",
    ]


def test_all_known_providers_are_listed() -> None:
    lines = invoke("models", "providers").stdout.splitlines()
    assert "DeepSeek  chat  DEEPSEEK_API_KEY  https://api.deepseek.com/v1" in lines
    assert "Ollama  chat, embedding, vision  no key  http://localhost:11434/v1" in lines
    assert any(line.startswith("Replicate  not available: ") for line in lines)
    assert len(lines) > 70


def test_a_model_that_does_not_work_is_reported(environment: dict[str, str]) -> None:
    result = invoke("models", "test", environment=environment)
    ok, fails = result.stdout.splitlines()
    assert result.exit_code == 1
    assert ok.startswith("ok  demo  chat  0.")
    assert fails.startswith("fails  tiny@Local  chat  ")
    unknown = invoke("models", "test", "x@Nowhere", environment=environment)
    assert "there is no provider 'Nowhere'" in unknown.stdout


async def test_models_of_all_kinds_are_asked_once(tmp_path: Path) -> None:
    import asyncio

    async with MockLLM([reply("ready")]) as llm:
        path = tmp_path / "s.toml"
        path.write_text(f"default_model = 'm@Local'\n[providers.Local]\nbase_url = '{llm.base_url}'\n")
        result = await asyncio.to_thread(invoke, "models", "test", environment={"RAGFLOW_LG_SETTINGS": str(path)})
        assert result.exit_code == 0
        assert [line.split("  ")[0:3] for line in result.stdout.splitlines()] == [
            ["ok", "m@Local", "chat"],
            ["ok", "demo", "chat"],
        ]
        assert len(llm.requests) == 1


async def test_a_silent_model_is_given_up(tmp_path: Path) -> None:
    import asyncio

    async with MockLLM([reply("late", delay_s=20)]) as llm:
        path = tmp_path / "s.toml"
        path.write_text(f"default_model = 'm@Local'\n[providers.Local]\nbase_url = '{llm.base_url}'\n")
        settings = {"RAGFLOW_LG_SETTINGS": str(path)}
        result = await asyncio.to_thread(invoke, "models", "test", "m@Local", "--timeout", "1", environment=settings)
    assert result.exit_code == 1
    assert result.stdout == "fails  m@Local  chat  It did not answer in 1 s.\n"
