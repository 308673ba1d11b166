"""The commands that run sessions, as a user has them: each call is a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.canvas import canvas, node
from tests.fakes.regions import assign, form, loop, out, text

ROOT = Path(__file__).parents[3]


@pytest.fixture
def cli(tmp_path: Path) -> Any:
    body = {
        "ask": form("w", tips="word?", downstream=["t"]),
        "t": text(["k"], "{lp@seen}{ask@w}"),
        "k": assign("lp@seen", "t@result"),
    }
    document = canvas({**loop(body, count=2, variables={"seen": ""}), **out("got {lp@seen}")})
    (tmp_path / "words.json").write_text(json.dumps(document))

    def call(*arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.run(
            [sys.executable, "-m", "ragflow_lg.server", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            env=environment,
            timeout=60,
            **more,
        )

    return call


def test_a_session_from_its_first_question_to_its_fork(cli: Any) -> None:
    asked = cli("run", "words.json", "go", "--session", "anna", "--events", "pretty")
    assert asked.returncode == 0
    assert "word?" in asked.stderr
    assert "w: w, line" in asked.stderr
    assert "ragflow-lg resume anna" in asked.stderr
    wrong = cli("resume", "anna", "--events", "json")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "'w' is required" in wrong.stderr
    assert "still open; answer it with: ragflow-lg resume anna --input w=VALUE" in wrong.stderr
    assert cli("resume", "anna", "--input", "w=x").returncode == 0
    forked = cli("fork", "anna", "--as", "ben")
    assert (forked.stdout, "waits for an answer: ragflow-lg resume ben" in forked.stderr) == ("ben\n", True)
    assert [line.split()[:2] for line in cli("sessions").stdout.splitlines()] == [
        ["ben", "waiting"],
        ["anna", "waiting"],
    ]
    assert cli("resume", "anna", "--input", "w=y", "--events", "pretty").stdout == "got xy\n"
    assert cli("resume", "ben", "--input", "w=z", "--events", "pretty").stdout == "got xz\n"
    listed = cli("sessions").stdout.splitlines()
    assert [(line.split()[0], line.split()[1]) for line in listed] == [("ben", "succeeded"), ("anna", "succeeded")]
    again = cli(
        "rerun", "anna", "--from", "t", "--round", "1", "--set", 'ask@w="Q"', "--as", "carl", "--events", "pretty"
    )
    assert again.stdout == "got xQ\n", again.stderr
    history = cli("history", "anna").stdout
    assert "next: out" in history
    assert "in lp round 1  next: ask" in history
    assert all(" UTC  " in line for line in [*history.splitlines(), *cli("sessions").stdout.splitlines()])
    step = next(line.split()[0] for line in history.splitlines() if "in lp round 1  next: t" in line)
    assert [cli("fork", "anna", "--at", step).stdout for _ in range(2)] == ["anna-fork\n", "anna-fork-2\n"]
    assert [line.split()[:2] for line in cli("sessions").stdout.splitlines()[:2]] == [
        ["anna-fork-2", "interrupted"],
        ["anna-fork", "interrupted"],
    ]
    assert cli("continue", "anna-fork", "--events", "pretty").stdout == "got xy\n"
    unnamed = cli("rerun", "anna", "--from", "out", "--events", "pretty")
    assert (unnamed.stdout, "The new session is anna-rerun\n" in unnamed.stderr) == ("got xy\n", True)
    assert cli("sessions", "--delete", "ben").stdout == "deleted ben\n"
    assert "ben" not in cli("sessions").stdout
    gone = cli("sessions", "--delete", "ben", "--delete", "carl")
    assert (gone.returncode, gone.stdout, "no session 'ben'" in gone.stderr) == (2, "deleted carl\n", True)
    assert "deleted anna\n" in cli("sessions", "--delete-older-than", "0").stdout
    assert cli("sessions").stdout == ""
    assert cli("sessions", "--delete-older-than", "0").stdout == "No session is that old.\n"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("resume", "nobody", "--input", "a=1"), "no session 'nobody'"),
        (("continue", "nobody"), "no session 'nobody'"),
        (("history", "nobody"), "no session 'nobody'"),
        (("fork", "nobody"), "no session 'nobody'"),
        (("cancel", "nobody"), "no session 'nobody'"),
        (("rerun", "nobody", "--from", "x", "--set", "oops"), "NAME=VALUE"),
        (("run", "words.json", "q", "-s", ""), "A session needs a name"),
        (("resume", " "), "A session needs a name"),
        (("run", "words.json", "q", "--session", "s", "--checkpoint", "ftp://x"), "Invalid session store URL"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_exit_code_2(cli: Any, arguments: tuple[str, ...], reason: str) -> None:
    done = cli(*arguments)
    assert done.returncode == 2
    assert reason in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_cancel_and_doctor(cli: Any) -> None:
    cli("run", "words.json", "go", "--session", "anna")
    again = cli("run", "words.json", "again", "--session", "anna")
    assert "waits for an answer. 'again' is taken as ask@w. To begin" in again.stderr
    assert "give it up with: ragflow-lg cancel anna\n" in again.stderr
    assert cli("cancel", "anna").stdout == "'anna' waits no longer; the next run of it begins a new turn.\n"
    assert cli("cancel", "anna").stdout == "Nothing runs in 'anna'.\n"
    assert cli("sessions").stdout.split()[:2] == ["anna", "cancelled"]
    anew = cli("run", "words.json", "anew", "--session", "anna")
    assert (anew.returncode, "give it up" in anew.stderr) == (0, False)
    assert '"event": "workflow_started"' in anew.stdout
    well = cli("doctor")
    assert (well.returncode, "is a session store" in well.stdout) == (0, True)
    ill = cli("doctor", "--checkpoint", "redis://127.0.0.1:1")
    assert (ill.returncode, "Start the server" in ill.stdout) == (1, True)


def test_two_forms_that_are_open_at_once(cli: Any, tmp_path: Path) -> None:
    size = {"name": "Size", "type": "integer", "optional": False}
    components = {
        "Form:A": form(tips="For whom?", downstream=["out"], size=size),
        "Form:B": form(tips="And then?", downstream=["out"], size=size, word={"name": "word", "type": "line"}),
    }
    document = canvas({**components, **out("{Form:A@size} {Form:B@size}")}, ["Form:A", "Form:B"])
    (tmp_path / "two.json").write_text(json.dumps(document))
    quiet = cli("run", "two.json", "go", "--session", "ben", "--events", "json")
    assert quiet.returncode == 0
    assert quiet.stderr == "The turn waits for an answer: ragflow-lg resume ben --input Form:A@NAME=VALUE\n"
    asked = cli("run", "two.json", "go", "--session", "anna", "--events", "pretty")
    assert "? For whom? (Form:A)\n  size: Size, integer\n? And then? (Form:B)\n  size: " in asked.stderr
    assert "ragflow-lg resume anna --input Form:A@NAME=VALUE" in asked.stderr
    lost = cli("run", "two.json", "more", "--session", "anna", "--events", "json")
    assert (lost.returncode, "'more' was not used" in lost.stderr) == (0, True)
    other = cli("run", "words.json", "more", "--session", "anna", "--events", "json")
    assert (other.returncode, other.stdout) == (2, "")
    assert "two.json; name another session" in other.stderr
    assert "answer it: ragflow-lg resume anna\n  give it up: ragflow-lg cancel anna\n" in other.stderr
    wrong = cli("resume", "anna", "--input", "Form:B@size=six")
    assert wrong.returncode == 2
    assert "'Size' (size) should be a whole number, not 'six'. The forms of Form:A (size) and" in _plain(wrong.stderr)
    assert "resume anna --input Form:B@size=VALUE --input Form:B@word=VALUE" in _plain(wrong.stderr)
    short = cli("resume", "anna", "--input", "Form:B@size=6", "--events", "json")
    assert "'word' is required" in short.stderr
    assert "resume anna --input Form:B@size=6 --input Form:B@word=VALUE" in short.stderr
    left = cli("resume", "anna", "--input", "Form:A@size=6", "--events", "pretty")
    assert "(Form:B)" in left.stderr
    assert "(Form:A)" not in left.stderr
    done = cli("resume", "anna", "--input", "size=7", "--input", "word=w", "--events", "pretty")
    assert done.stdout == "6 7\n", done.stderr


def test_what_is_to_be_typed_next_finds_the_same_store(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text("")
    store = "sqlite:///my store.db"
    options = ("--checkpoint", store, "--settings", "my.toml")
    found = "--checkpoint 'sqlite:///my store.db' --settings my.toml"
    asked = cli("run", "words.json", "go", "--session", "anna", "--model", "demo", *options)
    assert f"ragflow-lg resume anna --input NAME=VALUE {found} --model demo\n" in asked.stderr
    assert f"resume anna --input w=VALUE {found}\n" in cli("resume", "anna", *options).stderr
    forked = cli("fork", "anna", *options)
    assert f"ragflow-lg resume anna-fork {found}\n" in forked.stderr
    assert cli("resume", "anna-fork", "-i", "w=x", *options).returncode == 0
    lost = cli("run", "words.json", "go", "--session", "anna", "--checkpoint", "memory://")
    assert "name a --session, in a store that lasts" in lost.stderr


def _plain(text: str) -> str:
    """Take the message out of the frame that the command draws round it."""
    return " ".join(text.replace("│", " ").split())


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_where_the_turn_can_go_on(tmp_path: Path, kind: signal.Signals) -> None:
    slow = node(
        "Invoke",
        {"url": "http://127.0.0.1:9/", "method": "get", "timeout": 2, "max_retries": 3, "delay_after_error": 1},
    )
    slow["obj"]["params"] |= {"exception_method": "comment", "exception_default_value": "none"}
    slow["downstream"] = ["out"]
    (tmp_path / "c.json").write_text(json.dumps(canvas({"call": slow, **out("after {call@result}")})))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "RAGFLOW_LG_HTTP__ALLOW": '["127.0.0.1"]'}

    def done(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "ragflow_lg.server", *arguments],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    process = subprocess.Popen(
        [sys.executable, "-m", "ragflow_lg.server", "run", "c.json", "q", "--session", "s", "--events", "json"],
        cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    for line in process.stdout:
        if '"component_id": "call"' in line:
            break
    process.send_signal(kind)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "ragflow-lg continue s" in errors
    time.sleep(0.1)
    status = "interrupted" if kind == signal.SIGTERM else "cancelled"
    assert done("sessions").stdout.split()[:2] == ["s", status]
    again = done("continue", "s", "--events", "pretty")
    assert again.stdout.endswith("after \n"), again.stderr
