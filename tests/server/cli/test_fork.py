from tests.server.cli.command import Cli


def test_a_waiting_session_is_copied_with_its_form(cli: Cli) -> None:
    cli("run", "words.json", "go", "--session", "anna")
    fork = cli("fork", "anna", "--as", "ben")
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
    steps = cli("history", "anna").stdout.splitlines()
    step = next(line.split()[0] for line in steps if "in lp round 0  next: t" in line)
    forks = [cli("fork", "anna", "--at", step) for _ in range(2)]
    assert [fork.stdout for fork in forks] == ["anna-fork\n", "anna-fork-2\n"]
    assert forks[0].stderr == "Its turn is unfinished: ragflow-lg continue anna-fork\n"
