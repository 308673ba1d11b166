from tests.server.cli.command import Cli


def test_an_unfinished_turn_is_finished(cli: Cli) -> None:
    cli("run", "words.json", "go", "--session", "anna")
    for word in "xy":
        cli("resume", "anna", "--input", f"w={word}")
    steps = cli("history", "anna").stdout.splitlines()
    step = next(line.split()[0] for line in steps if "in lp round 1  next: t" in line)
    cli("fork", "anna", "--at", step, "--as", "ben")
    assert cli("sessions").stdout.split()[:2] == ["ben", "interrupted"]
    assert cli("continue", "ben", "--events", "pretty").stdout == "got xy\n"
    assert cli("sessions").stdout.split()[:2] == ["ben", "succeeded"]


def test_a_finished_turn_is_refused(cli: Cli) -> None:
    cli("run", "words.json", "go", "--session", "anna")
    refused = cli("continue", "anna")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("ragflow-lg: ")
