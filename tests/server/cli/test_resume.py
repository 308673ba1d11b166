import json
from pathlib import Path

import pytest

from tests.fakes.canvas import canvas
from tests.fakes.regions import form, node, out
from tests.server.cli.command import ROOT, Cli, one_line


def test_a_refused_answer_leaves_the_form_open(cli: Cli) -> None:
    cli("run", "words.json", "go", "--session", "anna")
    refused = cli("resume", "anna", "--events", "json")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "'w' is required" in refused.stderr
    assert "still open. Answer with: ragflow-lg resume anna --input w=VALUE" in refused.stderr
    assert cli("resume", "anna", "--input", "w=x").returncode == 0


@pytest.fixture
def two_forms(cli: Cli, tmp_path: Path) -> Cli:
    """Calls the command with ``two.json``, which asks two forms at once."""
    size = {"name": "Size", "type": "integer", "optional": False}
    components = {
        "Form:A": form(tips="For whom?", downstream=["out"], size=size),
        "Form:B": form(tips="And then?", downstream=["out"], size=size, word={"name": "word", "type": "line"}),
    }
    document = canvas({**components, **out("{Form:A@size} {Form:B@size}")}, ["Form:A", "Form:B"])
    (tmp_path / "two.json").write_text(json.dumps(document))
    return cli


def test_all_open_forms_are_shown(two_forms: Cli) -> None:
    quiet = two_forms("run", "two.json", "go", "--session", "ben", "--events", "json")
    assert quiet.returncode == 0
    assert quiet.stderr == "The turn waits for an answer: ragflow-lg resume ben --input Form:A@NAME=VALUE\n"
    pretty = two_forms("run", "two.json", "go", "--session", "anna", "--events", "pretty")
    assert "? For whom? (Form:A)\n  size: Size, integer\n? And then? (Form:B)\n  size: " in pretty.stderr
    assert "ragflow-lg resume anna --input Form:A@NAME=VALUE" in pretty.stderr


def test_a_session_that_waits_starts_no_other_turn(two_forms: Cli) -> None:
    two_forms("run", "two.json", "go", "--session", "anna")
    same = two_forms("run", "two.json", "more", "--session", "anna", "--events", "json")
    assert (same.returncode, "'more' is ignored" in same.stderr) == (0, True)
    other = two_forms("run", "words.json", "more", "--session", "anna", "--events", "json")
    assert (other.returncode, other.stdout) == (2, "")
    assert "two.json. Use another session" in other.stderr
    assert "answer it: ragflow-lg resume anna\n  cancel it: ragflow-lg sessions cancel anna\n" in other.stderr


def test_forms_are_answered_one_by_one(two_forms: Cli) -> None:
    two_forms("run", "two.json", "go", "--session", "anna")
    refused = two_forms("resume", "anna", "--input", "Form:B@size=six")
    assert refused.returncode == 2
    message = one_line(refused.stderr)
    assert "'Size' (size) should be a whole number, not 'six'. The forms in Form:A (size) and" in message
    assert "resume anna --input Form:B@size=VALUE --input Form:B@word=VALUE" in message
    incomplete = two_forms("resume", "anna", "--input", "Form:B@size=6", "--events", "json")
    assert "'word' is required" in incomplete.stderr
    assert "resume anna --input Form:B@size=6 --input Form:B@word=VALUE" in incomplete.stderr
    first = two_forms("resume", "anna", "--input", "Form:A@size=6", "--events", "pretty")
    assert "(Form:B)" in first.stderr
    assert "(Form:A)" not in first.stderr
    both = two_forms("resume", "anna", "--input", "size=7", "--input", "word=w", "--events", "pretty")
    assert both.stdout == "6 7\n", both.stderr


def interrupt_copy(cli: Cli) -> None:
    """Copy the session ``anna`` to ``ben``, in the middle of its turn."""
    cli("run", "words.json", "go", "--session", "anna")
    for word in "xy":
        cli("resume", "anna", "--input", f"w={word}")
    steps = cli("sessions", "history", "anna").stdout.splitlines()
    step = next(line.split()[0] for line in steps if "in lp round 1  next: t" in line)
    cli("sessions", "fork", "anna", "--at", step, "--as", "ben")


def test_an_unfinished_turn_is_finished(cli: Cli) -> None:
    interrupt_copy(cli)
    assert cli("sessions").stdout.split()[:2] == ["ben", "interrupted"]
    assert cli("continue", "ben", "--events", "pretty").stdout == "got xy\n"
    assert cli("sessions").stdout.split()[:2] == ["ben", "succeeded"]


def test_a_turn_goes_on_with_the_model_that_it_was_started_with(cli: Cli, tmp_path: Path) -> None:
    components = {
        "ask": form("w", downstream=["llm"]),
        "llm": node("LLM", {"llm_id": "gpt@Nobody", "prompts": "Say {ask@w}"}, ["out"]),
        **out("{llm@content}"),
    }
    (tmp_path / "llm.json").write_text(json.dumps(canvas(components)))
    for session, words in {
        "anna": ["resume", "anna", "--input", "w=x"],
        "ben": ["run", "llm.json", "x", "--session", "ben"],
        "cleo": ["resume", "cleo-fork", "--input", "w=x"],
    }.items():
        cli("run", "llm.json", "go", "--session", session, "--model", "demo")
        cli("sessions", "fork", session)
        result = cli(*words, "--events", "pretty")
        assert (result.returncode, "demo" in result.stdout) == (0, True), result.stderr
        assert "The model is demo, as before. To use the models of the canvas, add --model ''.\n" in result.stderr
    cli("sessions", "fork", "anna", "--as", "own")
    own = cli("sessions", "rerun", "anna", "--from", "llm", "--model", "")
    assert (own.returncode, "gpt@Nobody" in own.stdout) == (1, True), own.stderr


def test_a_node_that_failed_next_to_a_form_is_named(cli: Cli, tmp_path: Path) -> None:
    components = {
        "ask": form("w", downstream=["out"]),
        "bad": node("ListOperations", {"query": "sys.query"}),
        **out("{ask@w}"),
    }
    (tmp_path / "bad.json").write_text(json.dumps(canvas(components, ["ask", "bad"])))
    waiting = cli("run", "bad.json", "go", "--session", "anna")
    assert waiting.returncode == 0
    assert "bad has failed, so the turn fails after the answer." in waiting.stderr
    assert "the answer is kept: ragflow-lg sessions rerun anna --from bad\n" in waiting.stderr
    failed = cli("resume", "anna", "--input", "w=x", "--events", "json")
    assert failed.returncode == 1
    last = json.loads(failed.stdout.splitlines()[-1])
    assert (last["event"], last["data"]["component_id"]) == ("node_finished", "bad")
    assert failed.stderr == f"ragflow-lg: bad: {last['data']['error']}\n"


def test_an_answer_in_an_interrupted_session_tells_how_to_finish_the_turn(cli: Cli) -> None:
    interrupt_copy(cli)
    refused = cli("resume", "ben", "--input", "w=x")
    assert refused.returncode == 2
    assert "was interrupted. Finish it first: ragflow-lg continue ben" in one_line(refused.stderr)
    assert cli("continue", "ben", "--events", "pretty").stdout == "got xy\n"


def test_a_new_turn_in_an_interrupted_session_is_announced(cli: Cli) -> None:
    interrupt_copy(cli)
    fresh = cli("run", "words.json", "go", "--session", "ben")
    assert "The last turn of 'ben' was interrupted; `continue` would have finished it." in fresh.stderr
    command = fresh.stderr.partition("in a copy: ragflow-lg ")[2].partition("\n")[0]
    assert command.startswith("sessions fork ben --at ")
    assert cli(*command.split()).stdout == "ben-fork\n"
    assert cli("continue", "ben-fork", "--events", "pretty").stdout == "got xy\n"
    assert "interrupted" not in cli("run", "words.json", "go", "--session", "cleo").stderr


def test_a_finished_turn_is_refused(cli: Cli) -> None:
    cli("run", "words.json", "go", "--session", "anna")
    refused = cli("continue", "anna")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == "ragflow-lg: The session 'anna' is waiting for an answer. Resume it.\n"
    cli("run", ROOT / "examples" / "loop.json", "go", "--session", "dora")
    refused = cli("continue", "dora")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == "ragflow-lg: The session 'dora' has no unfinished turn. Start a new one.\n"


def test_a_form_that_accepts_every_answer_accepts_it_from_the_command(cli: Cli, tmp_path: Path) -> None:
    size = {"name": "Size", "type": "integer", "optional": False}
    document = canvas({"Form:A": form(downstream=["out"], size=size), **out("{Form:A@size}")}, ["Form:A"])
    (tmp_path / "free.json").write_text(json.dumps({**document, "compat": {"unchecked_forms": True}}))
    cli("run", "free.json", "go", "--session", "anna")
    answered = cli("resume", "anna", "--input", "size=huge")
    assert (answered.returncode, "huge" in answered.stdout) == (0, True), answered.stderr
