import base64
from pathlib import Path

import pytest

from ragflow_lg.base import extras
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.checkpoints.check_result import CheckResult
from ragflow_lg.component.registry import BrokenSpec, Registry
from ragflow_lg.server.assembly.health_checks import probe_abilities, probe_models, probe_packages
from ragflow_lg.server.settings import Settings, load_settings
from tests.fakes.model_wires.ollama_wire import OllamaWire
from tests.fakes.model_wires.wire import serving_wire
from tests.server.cli.command import Cli, invoke


def test_a_store_works_or_fails_with_advice(cli: Cli) -> None:
    cli("run", "words.json", "go", "--session", "anna")
    healthy = cli("doctor")
    assert (healthy.returncode, "is a session store" in healthy.stdout, "FAIL" in healthy.stdout) == (0, True, False)
    failed = cli("doctor", "--checkpoint", "redis://127.0.0.1:1")
    assert (failed.returncode, "FAIL" in failed.stdout, "→ Start the server" in failed.stdout) == (1, True, True)


def test_components_that_cannot_be_loaded_are_reported() -> None:
    broken = BrokenSpec("Bad", SettingsError("It is ill."))
    (finding,) = probe_packages(Registry({"installed": lambda: [broken]}))
    assert (finding.is_well, finding.what, finding.advice) == (False, "Bad cannot be loaded", "It is ill.")


def test_models_and_keys_are_checked() -> None:
    doctor = ("doctor", "--settings", "s.toml", "--checkpoint", "memory://")
    Path("s.toml").write_text("[tools.tavily]\napi_key = { env = 'NO_SUCH_KEY_OF_TEST' }\n")
    result = invoke(*doctor)
    assert result.exit_code == 1
    assert "note  the default model is demo\n      → No key was found, so" in result.stdout
    assert probe_models(Settings().for_model("demo"))[0].advice == ""
    assert "FAIL  tools.tavily.api_key is missing: the environment variable 'NO_SUCH_KEY" in result.stdout
    Path("s.toml").write_text("default_model = 'x@Nowhere'\n")
    assert "FAIL  the default model x@Nowhere cannot be used\n" in invoke(*doctor).stdout


async def test_what_a_server_tells_is_reported_with_its_settings() -> None:
    async with serving_wire(OllamaWire()) as (_, address):
        providers = {"Ollama": {"base_url": address}}
        settings = {"default_model": "qwen3:8b@Ollama", "providers": providers}
        (told,) = await probe_abilities(Settings.model_validate(settings))
        set_ = {
            **settings,
            "models": {"qwen3:8b@Ollama": {"context_tokens": 2048, "has_vision": True, "has_tools": True}},
        }
        assert await probe_abilities(Settings.model_validate(set_)) == []
    assert (told.is_well, told.what) == (True, "qwen3:8b@Ollama: a window of 4,096 tokens, no images, tools, thinking")
    setting = '[models."qwen3:8b@Ollama"] context_tokens = 4096, has_vision = false, has_tools = true'
    assert told.advice == f"To keep this, set {setting} in the settings."
    assert await probe_abilities(Settings()) == []
    assert await probe_abilities(Settings.model_validate({"default_model": "x@Nowhere"})) == []


def test_missing_packages_of_models_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "geheim-10")
    monkeypatch.setitem(extras.EXTRAS, "anthropic", ("no_such_package",))
    monkeypatch.setitem(extras.EXTRAS, "ollama", ("no_such_package",))
    path = tmp_path / "s.toml"
    path.write_text("[providers.Ollama]\nbase_url = 'http://127.0.0.1:9'\n")
    found = {result.what: result for result in probe_models(load_settings(path))}
    mentioned, chosen = found["models of Anthropic cannot be used"], found["models of Ollama cannot be used"]
    assert (mentioned.is_well, chosen.is_well) == (True, False)
    assert "[ollama]" in chosen.advice


def test_what_is_well_with_advice_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    async def found(*_: object, **__: object) -> list[CheckResult]:
        return [CheckResult(True, "Browser cannot be used", "Install Chromium.")]

    monkeypatch.setattr("ragflow_lg.server.assembly.health_checks.probe_abilities", found)
    result = invoke("doctor", "--checkpoint", "memory://")
    assert result.exit_code == 0
    assert "note  Browser cannot be used\n      → Install Chromium.\n" in result.stdout


def test_encryption_is_checked_before_there_is_a_store() -> None:
    Path("s.toml").write_text("[[encryption_keys]]\nid = '2027'\nkey = { env = 'NO_SUCH_KEY_OF_TEST' }\n")
    words = ("doctor", "--settings", "s.toml", "--checkpoint")
    for checkpoint in ("sqlite:///none.db", "memory://", "redis://127.0.0.1:1"):
        missing = invoke(*words, checkpoint)
        assert missing.exit_code == 1
        expected = "FAIL  sessions cannot be encrypted\n      → The encryption key '2027' is missing: the environment "
        assert expected + "variable 'NO_SUCH_KEY_OF_TEST' is not set. Put the key there." in missing.stdout
        assert "the default model is demo" in missing.stdout  # the other checks go on
    key = {"NO_SUCH_KEY_OF_TEST": base64.b64encode(b"k" * 32).decode()}
    encrypted = invoke(*words, "sqlite:///none.db", environment=key)
    assert "ok    sessions are encrypted with the key '2027'\n" in encrypted.stdout
    assert encrypted.exit_code == 0
