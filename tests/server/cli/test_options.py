from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from ragflow_lg.server.cli.options import PlayOptions, check_session_name, with_run_options


def test_a_command_gets_its_own_and_the_shared_options() -> None:
    calls: list[tuple[str, PlayOptions]] = []

    @with_run_options
    def command(name: str, options: PlayOptions) -> None:
        """Do something."""
        calls.append((name, options))

    app = typer.Typer()
    app.command()(command)
    words = ["anna", "-m", "demo", "--replay", "a.jsonl", "--replay-mode", "loose", "-e", "json", "--trace"]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert CliRunner().invoke(app, ["ben"]).exit_code == 0
    shared = PlayOptions(model="demo", replay=Path("a.jsonl"), replay_mode="loose", events="json", trace=True)
    assert calls == [("anna", shared), ("ben", PlayOptions())]
    assert "Do something." in CliRunner().invoke(app, ["--help"]).stdout


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (PlayOptions(record=Path("a"), replay=Path("b")), "either --record or --replay"),
        (PlayOptions(model="demo", replay=Path("b")), "leave out --model"),
        (PlayOptions(replay_mode="loose"), "add --replay"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: PlayOptions, reason: str) -> None:
    with pytest.raises(typer.BadParameter, match=reason):
        options.check_replay()


def test_a_session_needs_a_name() -> None:
    assert (check_session_name("anna"), check_session_name(None)) == ("anna", None)
    for name in ("", " "):
        with pytest.raises(typer.BadParameter, match="needs a name"):
            check_session_name(name)
