from datetime import UTC, datetime, timedelta, timezone

import pytest

from ragflow_lg.server.cli.terminal import count_of, format_command, format_time, paint, print_line, printable


def test_times_are_in_utc() -> None:
    assert format_time(datetime(2026, 3, 1, 9, 5, 2, tzinfo=UTC)) == "2026-03-01 09:05:02 UTC"
    assert format_time(datetime(2026, 3, 1, 9, tzinfo=timezone(timedelta(hours=2)))) == "2026-03-01 07:00:00 UTC"


def test_a_command_can_be_pasted_into_a_shell() -> None:
    assert format_command("resume", "anna", "--input", "a@b=C") == "ragflow-lg resume anna --input a@b=C"
    assert format_command("continue", "my chat") == "ragflow-lg continue 'my chat'"


def test_letters_of_any_script_are_printable() -> None:
    assert printable("Grüße, 客服\tok\n") == "Grüße, 客服\tok\n"


def test_one_is_singular() -> None:
    assert [count_of(number, "chunk") for number in (0, 1, 2000)] == ["0 chunks", "1 chunk", "2,000 chunks"]


def test_control_characters_become_spaces() -> None:
    assert printable("a\x1b[31m\x9b\x07\r\u202e\ud800b") == "a [31m     b"


def test_a_line_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_line("a\nb\x1b[31m")
    assert capsys.readouterr().out == "a b [31m\n"


@pytest.mark.parametrize(
    ("is_terminal", "variables", "is_coloured"),
    [
        (True, {}, True),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": ""}, True),
        (True, {"TERM": "dumb"}, False),
        (False, {}, False),
    ],
)
def test_only_terminals_get_colours(
    is_terminal: bool, variables: dict[str, str], is_coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal)
    for name, value in {"NO_COLOR": "", "TERM": "xterm", "WT_SESSION": "1", **variables}.items():
        monkeypatch.setenv(name, value)
    assert paint("error", "bold", "red") == ("\x1b[1;31merror\x1b[0m" if is_coloured else "error")
    assert (paint("", "red"), paint("plain")) == ("", "plain")
