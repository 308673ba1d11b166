"""Sessions over several commands: each call finds what the one before has stored."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.canvas import node
from tests.fakes.regions import out
from tests.harness.rows import each_row, read_rows
from tests.server.cli.command import Cli, end, one_line, save, start


def test_a_session_from_its_first_question_to_its_end(cli: Cli) -> None:
    start = cli("run", "words.json", "go", "--session", "anna", "--events", "pretty")
    assert start.returncode == 0
    assert "word?" in start.stderr
    assert "w: w, line" in start.stderr
    assert "ragflow-lg resume anna" in start.stderr
    assert cli("resume", "anna", "--input", "w=x").returncode == 0
    assert cli("resume", "anna", "--input", "w=y", "--events", "pretty").stdout == "got xy\n"
    history = cli("sessions", "history", "anna").stdout
    assert "next: out" in history
    assert "in lp round 1  next: ask" in history
    assert all(" UTC  " in line for line in [*history.splitlines(), *cli("sessions").stdout.splitlines()])
    cli("sessions", "fork", "anna", "--as", "ben")
    cli("sessions", "fork", "anna", "--as", "carl")
    assert cli("sessions", "delete", "ben").stdout.startswith("deleted ben: ")
    listed = cli("sessions", "list").stdout
    assert ("anna" in listed, "ben" in listed) == (True, False)
    missing = cli("sessions", "delete", "ben", "carl")
    assert (missing.returncode, "deleted carl" in missing.stdout, "no session 'ben'" in missing.stderr) == (
        2,
        True,
        True,
    )
    assert cli("sessions", "delete", "--older-than", "1").stderr == "There are no such sessions.\n"
    assert "deleted anna: " in cli("sessions", "delete", "--older-than", "0").stdout
    assert cli("sessions").stdout == ""


@each_row(("words", "reason"), read_rows("cli_errors"))
def test_a_command_that_cannot_run_prints_one_message_with_exit_code_2(cli: Cli, words: str, reason: str) -> None:
    Path("ragflow-lg.db").touch()
    refused = cli(*words.split())
    assert (refused.returncode, refused.stdout) == (2, "")
    assert reason in one_line(refused.stderr)


def test_a_turn_that_waits_is_cancelled(cli: Cli) -> None:
    cli("run", "words.json", "go", "--session", "anna")
    again = cli("run", "words.json", "again", "--session", "anna")
    assert "waits for an answer. 'again' is used as ask@w. To start" in again.stderr
    assert "cancel this one: ragflow-lg sessions cancel anna\n" in again.stderr
    cancelled = cli("sessions", "cancel", "anna").stdout
    assert cancelled == "'anna' no longer waits for an answer; its next run starts a new turn.\n"
    assert cli("sessions", "cancel", "anna").stdout == "No turn is running in 'anna'.\n"
    assert cli("sessions").stdout.split()[:2] == ["anna", "cancelled"]
    fresh = cli("run", "words.json", "fresh", "--session", "anna")
    assert (fresh.returncode, "cancel this one" in fresh.stderr) == (0, False)
    assert '"event": "workflow_started"' in fresh.stdout


def test_hints_name_the_same_store(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text("")
    options = ("--checkpoint", "sqlite:///my store.db", "--settings", "my.toml")
    repeated = "--checkpoint 'sqlite:///my store.db' --settings my.toml"
    waiting = cli("run", "words.json", "go", "--session", "anna", "--model", "demo", *options)
    assert f"ragflow-lg resume anna --input NAME=VALUE {repeated} --model demo\n" in waiting.stderr
    assert f"resume anna --input w=VALUE {repeated} --model demo\n" in cli("resume", "anna", *options).stderr
    assert f"ragflow-lg resume anna-fork {repeated}\n" in cli("sessions", "fork", "anna", *options).stderr
    assert cli("resume", "anna-fork", "-i", "w=x", *options).returncode == 0
    unstored = cli("run", "words.json", "go", "--session", "anna", "--checkpoint", "memory://")
    assert "run it with --session NAME" in unstored.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_second_signal_does_not_wait_for_a_model(cli: Cli, tmp_path: Path) -> None:
    prompts = [{"role": "user", "content": "{sys.query}"}]
    save("c.json", {"model": node("LLM", {"llm_id": "m@Silent", "prompts": prompts}, ["out"]), **out("x")})
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        (tmp_path / "my.toml").write_text(f'[providers.Silent]\nbase_url = "{address}"')
        process = start("run", "c.json", "q", "--session", "s", "--settings", "my.toml")
        silent.accept()
        process.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        _, errors = end(process)
    assert "ragflow-lg continue s" in errors
    assert cli("sessions").stdout.split()[:2] == ["s", "interrupted"]


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_turn_where_it_can_be_continued(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, kind: signal.Signals
) -> None:
    call = {"url": "http://127.0.0.1:9/", "method": "get", "timeout": 2, "max_retries": 1, "delay_after_error": 1}
    call |= {"exception_method": "comment", "exception_default_value": "none"}
    save("c.json", {"call": node("Invoke", call, ["out"]), **out("after {call@result}")})
    monkeypatch.setenv("RAGFLOW_LG_HTTP__ALLOW", '["127.0.0.1"]')
    process = start("run", "c.json", "q", "--session", "s", "--events", "json")
    assert process.stdout is not None
    assert any('"component_id": "call"' in line for line in process.stdout)
    code, errors = end(process, kind)
    assert code == 1
    assert "ragflow-lg continue s" in errors
    status = "interrupted" if kind == signal.SIGTERM else "cancelled"
    assert cli("sessions").stdout.split()[:2] == ["s", status]
    result = cli("continue", "s", "--events", "pretty")
    assert result.stdout.endswith("after \n"), result.stderr
