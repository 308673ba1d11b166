import json
from pathlib import Path

from tests.fakes.canvas import canvas
from tests.fakes.regions import form, out, text
from tests.server.cli.command import Cli, one_line


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


def test_an_empty_checkpoint_is_refused(cli: Cli) -> None:
    cli("run", "words.json", "go", "--session", "anna")
    refused = cli("sessions", "fork", "anna", "--at", "")
    assert refused.returncode == 2
    assert "leave it out to fork the newest checkpoint" in one_line(refused.stderr)
    assert [line.split()[0] for line in cli("sessions").stdout.splitlines()] == ["anna"]


def test_a_turn_is_run_again_from_a_node_with_another_value(cli: Cli) -> None:
    cli("run", "words.json", "go", "--session", "anna")
    for word in "xy":
        cli("resume", "anna", "--input", f"w={word}")
    arguments = (
        "sessions",
        "rerun",
        "anna",
        "--from",
        "t",
        "--round",
        "1",
        "--set",
        'ask@w="Q"',
        "--as",
        "carl",
        "-e",
        "pretty",
    )
    assert cli(*arguments).stdout == "got xQ\n"
    unnamed = cli("sessions", "rerun", "anna", "--from", "out", "--events", "pretty")
    assert unnamed.stdout == "got xy\n"
    assert "The new session is anna-rerun\n" in unnamed.stderr


def test_a_change_needs_a_name_and_a_value(cli: Cli) -> None:
    refused = cli("sessions", "rerun", "nobody", "--from", "x", "--set", "oops")
    assert refused.returncode == 2
    assert "'oops' should be NAME=VALUE." in one_line(refused.stderr)


def test_nodes_are_named_by_their_titles(cli: Cli, tmp_path: Path) -> None:
    nodes = {
        "ask:1": form("w", tips="word?", downstream=["t:1"]),
        "t:1": text(["out"], "{ask:1@w}!"),
        **out("{t:1@result}"),
    }
    titles = {"ask:1": "Which word", "t:1": "Price list"}
    graph = {"nodes": [{"id": id_, "data": {"name": title}} for id_, title in titles.items()]}
    (tmp_path / "titles.json").write_text(json.dumps(canvas(nodes, graph=graph)))
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
