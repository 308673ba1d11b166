from server.cli.rerun import __all__ as names


def test_its_command_is_a_subcommand() -> None:
    from server.cli.app import COMMANDS

    assert [command.__name__ for command in COMMANDS.values() if command.__module__ == "server.cli.rerun"] == list(
        names
    )
