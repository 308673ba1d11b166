from tests.server.cli.command import Cli, one_line


def test_a_turn_is_run_again_from_a_node_with_another_value(cli: Cli) -> None:
    cli("run", "words.json", "go", "--session", "anna")
    for word in "xy":
        cli("resume", "anna", "--input", f"w={word}")
    arguments = ("rerun", "anna", "--from", "t", "--round", "1", "--set", 'ask@w="Q"', "--as", "carl", "-e", "pretty")
    assert cli(*arguments).stdout == "got xQ\n"
    unnamed = cli("rerun", "anna", "--from", "out", "--events", "pretty")
    assert unnamed.stdout == "got xy\n"
    assert "The new session is anna-rerun\n" in unnamed.stderr


def test_a_change_needs_a_name_and_a_value(cli: Cli) -> None:
    refused = cli("rerun", "nobody", "--from", "x", "--set", "oops")
    assert refused.returncode == 2
    assert "'oops' should be NAME=VALUE." in one_line(refused.stderr)
