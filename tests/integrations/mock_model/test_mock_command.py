import json
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest

from ragflow_lg.base.errors import SettingsError
from tests.harness.rows import each_row
from tests.server.cli.command import ROOT, end, invoke, read_lines, start

RULES = ROOT / "examples" / "mock_rules.toml"


@each_row("number", [signal.SIGINT, signal.SIGTERM])
def test_it_prints_its_url_logs_and_ends_at_once(tmp_path: Path, number: signal.Signals) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(
        '[[rules]]\nwhen.user = "slow"\nreplies = [{ delay_s = 60 }]\n[[rules]]\nreplies = [{ text = "hi" }]'
    )
    process = start("mock-llm", rules)
    (url,) = read_lines(process, 1)
    assert url.startswith("http://127.0.0.1:")

    def ask(text: str, timeout_s: float) -> Any:
        body = {"model": "m", "messages": [{"role": "user", "content": text}]}
        headers = {"Authorization": "Bearer sk-0123456789abcdef"}
        return httpx.post(f"{url}/chat/completions", json=body, headers=headers, timeout=timeout_s).json()

    assert ask("hello", 30)["choices"][0]["message"]["content"] == "hi"
    with pytest.raises(httpx.ReadTimeout):
        ask("slow", 0.3)
    code, written = end(process, number)
    assert code == 0
    assert "sk-0123456789abcdef" not in written
    assert [json.loads(line)["user"] for line in written.splitlines()] == ["hello", "slow"]


def test_user_errors_are_reported(tmp_path: Path) -> None:
    assert isinstance(invoke("mock-llm", tmp_path / "none.toml").exception, SettingsError)
    assert isinstance(invoke("mock-llm", RULES, "--host", "no.such.host.invalid").exception, SettingsError)
