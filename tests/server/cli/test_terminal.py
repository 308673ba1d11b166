from __future__ import annotations

from server.cli.terminal import printable


def test_letters_of_any_script_stay() -> None:
    assert printable("Grüße, 客服\tok\n") == "Grüße, 客服\tok\n"


def test_controls_become_blanks() -> None:
    assert printable("a\x1b[31m\x9b\x07\r\u202e\ud800b") == "a [31m     b"
