from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from ragflow_lg.server.cli.terminal import counted, printable, shown_command, shown_time


def test_times_are_told_in_one_way() -> None:
    assert shown_time(datetime(2026, 3, 1, 9, 5, 2, tzinfo=UTC)) == "2026-03-01 09:05:02 UTC"
    assert shown_time(datetime(2026, 3, 1, 9, tzinfo=timezone(timedelta(hours=2)))) == "2026-03-01 07:00:00 UTC"


def test_a_command_can_be_typed_as_it_is_shown() -> None:
    assert shown_command("resume", "anna", "--input", "a@b=C") == "ragflow-lg resume anna --input a@b=C"
    assert shown_command("continue", "my chat") == "ragflow-lg continue 'my chat'"


def test_letters_of_any_script_stay() -> None:
    assert printable("Grüße, 客服\tok\n") == "Grüße, 客服\tok\n"


def test_one_is_not_many() -> None:
    assert [counted(number, "chunk") for number in (0, 1, 2000)] == ["0 chunks", "1 chunk", "2,000 chunks"]


def test_controls_become_blanks() -> None:
    assert printable("a\x1b[31m\x9b\x07\r\u202e\ud800b") == "a [31m     b"
