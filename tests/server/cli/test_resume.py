import json

import pytest

from ragflow_lg.server.cli.options import PlayOptions
from ragflow_lg.server.cli.play import next_command
from ragflow_lg.server.cli.terminal import DEMO
from tests.fakes.regions import form, node, out, text
from tests.server.cli.command import ROOT, Cli, one_line, save


def test_a_refused_answer_leaves_the_form_open(cli: Cli) -> None:
    cli("run", "words.json", "go", "--session", "anna")
    refused = cli("resume", "anna", "--events", "json")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "'w' is required" in refused.stderr
    assert "still open. Answer with: ragflow-lg resume anna --input w=VALUE" in refused.stderr
    assert cli("resume", "anna", "--input", "w=x").returncode == 0


@pytest.fixture
def two_forms(cli: Cli) -> Cli:
    """Calls the command with ``two.json``, which asks two forms at once."""
    size = {"name": "Size", "type": "integer", "optional": False}
    components = {
        "Form:A": form(tips="For whom?", downstream=["out"], size=size),
        "Form:B": form(tips="And then?", downstream=["out"], size=size, word={"name": "word", "type": "line"}),
    }
    save("two.json", {**components, **out("{Form:A@size} {Form:B@size}")}, ["Form:A", "Form:B"])
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


def test_a_turn_goes_on_with_the_model_that_it_was_started_with(cli: Cli) -> None:
    components = {
        "ask": form("w", downstream=["llm"]),
        "llm": node("LLM", {"llm_id": "gpt@Nobody", "prompts": "Say {ask@w}"}, ["out"]),
        **out("{llm@content}"),
    }
    save("llm.json", components)
    for session, words in {
        "anna": ["resume", "anna", "--input", "w=x"],
        "ben": ["run", "llm.json", "x", "--session", "ben"],
        "cleo": ["resume", "cleo-fork", "--input", "w=x"],
    }.items():
        cli("run", "llm.json", "go", "--session", session, "--model", "demo")
        cli("sessions", "fork", session)
        result = cli(*words, "--events", "pretty")
        assert (result.returncode, "would now" in result.stdout) == (0, True), result.stderr
        assert DEMO in result.stderr
        assert "The model is demo, as before. To use the models of the canvas, add --model ''.\n" in result.stderr
    cli("sessions", "fork", "anna", "--as", "own")
    own = cli("sessions", "rerun", "anna", "--from", "llm", "--model", "")
    assert (own.returncode, "gpt@Nobody" in own.stdout) == (1, True), own.stderr


def test_a_node_that_failed_next_to_a_form_is_named(cli: Cli) -> None:
    components = {
        "ask": form("w", downstream=["out"]),
        "bad": node("ListOperations", {"query": "sys.query"}),
        **out("{ask@w}"),
    }
    save("bad.json", components, ["ask", "bad"])
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


def test_a_password_is_masked() -> None:
    command = next_command(PlayOptions(checkpoint="redis://me:secret@there:6379/0"), "resume", "anna")
    assert command == "ragflow-lg resume anna --checkpoint 'redis://me:***@there:6379/0'"
    assert "redis://there" in next_command(PlayOptions(checkpoint="redis://there"), "resume", "anna")


def test_a_waiting_session_is_copied_with_its_form(cli: Cli) -> None:
    cli("run", "words.json", "go", "--session", "anna")
    fork = cli("sessions", "fork", "anna", "--as", "ben")
    assert fork.stdout == "ben\n"
    assert fork.stderr == "It waits for an answer: ragflow-lg resume ben\n"
    assert [line.split()[:2] for line in cli("sessions").stdout.splitlines()] == [
        ["ben", "waiting"],
        ["anna", "waiting"],
    ]
    for session, word in (("anna", "y"), ("ben", "z")):
        cli("resume", session, "--input", "w=x")
        assert cli("resume", session, "--input", f"w={word}", "--events", "pretty").stdout == f"got x{word}\n"


def test_a_fork_at_a_checkpoint_gets_a_free_name(cli: Cli) -> None:
    cli("run", "words.json", "go", "--session", "anna")
    cli("resume", "anna", "--input", "w=x")
    steps = cli("sessions", "history", "anna").stdout.splitlines()
    step = next(line.split()[0] for line in steps if "in lp round 0  next: t" in line)
    forks = [cli("sessions", "fork", "anna", "--at", step) for _ in range(2)]
    assert [fork.stdout for fork in forks] == ["anna-fork\n", "anna-fork-2\n"]
    assert forks[0].stderr == "Its turn is unfinished: ragflow-lg continue anna-fork\n"


def test_nodes_are_named_by_their_titles(cli: Cli) -> None:
    nodes = {
        "ask:1": form("w", tips="word?", downstream=["t:1"]),
        "t:1": text(["out"], "{ask:1@w}!"),
        **out("{t:1@result}"),
    }
    titles = {"ask:1": "Which word", "t:1": "Price list"}
    graph = {"nodes": [{"id": id_, "data": {"name": title}} for id_, title in titles.items()]}
    save("titles.json", nodes, graph=graph)
    cli("run", "titles.json", "go", "--session", "ben")
    assert cli("resume", "ben", "--input", "Which word@w=x", "-e", "pretty").stdout == "x!\n"
    again = cli("sessions", "rerun", "ben", "--from", "price list", "--set", "Which word@w=y", "-e", "pretty")
    assert again.stdout == "y!\n"
    assert cli("sessions", "fork", "ben", "--at", "price list").stdout == "ben-fork\n"
    assert cli("continue", "ben-fork", "-e", "pretty").stdout == "x!\n"
    assert "no checkpoint 'Price lst'" in cli("sessions", "fork", "ben", "--at", "Price lst").stderr
    refused = cli("sessions", "rerun", "ben", "--from", "Price lst")
    assert refused.returncode == 2
    assert (
        "no node 'Price lst'. Did you mean 'Price list' (t:1)? List them with: ragflow-lg sessions history ben"
        in refused.stderr
    )
