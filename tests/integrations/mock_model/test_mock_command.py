import json
import signal
import subprocess
from pathlib import Path

import httpx
import pytest

from ragflow_lg.base.errors import SettingsError
from tests.harness.loaded_python import python_command
from tests.server.cli.command import ROOT, invoke

RULES = ROOT / "examples" / "mock_rules.toml"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_prints_its_url_logs_and_ends_at_once(tmp_path: Path, number: signal.Signals) -> None:
    rules, log = tmp_path / "rules.toml", tmp_path / "log.jsonl"
    rules.write_text(
        '[[rules]]\nwhen.user = "slow"\nreplies = [{ delay_s = 60 }]\n[[rules]]\nreplies = [{ text = "hi" }]'
    )
    process = subprocess.Popen(
        python_command("-m", "ragflow_lg", "mock-llm", rules, "--log", log),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    assert url.startswith("http://127.0.0.1:")
    body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
    headers = {"Authorization": "Bearer sk-0123456789abcdef"}
    answer = httpx.post(f"{url}/chat/completions", json=body, headers=headers)
    assert answer.json()["choices"][0]["message"]["content"] == "hi"
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(
            f"{url}/chat/completions", json={**body, "messages": [{"role": "user", "content": "slow"}]}, timeout=0.3
        )
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    written = log.read_text(encoding="utf-8")
    assert "sk-0123456789abcdef" not in written
    assert [json.loads(line)["user"] for line in written.splitlines()] == ["hello", "slow"]


def test_user_errors_are_reported(tmp_path: Path) -> None:
    assert isinstance(invoke("mock-llm", tmp_path / "none.toml").exception, SettingsError)
    assert isinstance(invoke("mock-llm", RULES, "--host", "no.such.host.invalid").exception, SettingsError)
    assert isinstance(invoke("mock-llm", RULES, "--log", tmp_path).exception, SettingsError)
