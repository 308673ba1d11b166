from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.runs.pauses import Pause
from ragflow_lg.server.cli.next_step_hints import Place, how_to_answer, how_to_wait

SIZE = {"name": "Size", "type": "integer", "optional": False}
COLOUR = {"name": "Colour", "type": "options", "optional": False, "options": ["red", "dark blue"]}
SHIRT = Pause("1", "Form:Shirt", "", {"colour": COLOUR, "size": SIZE})
SHOES = Pause("2", "Form:Shoes", "", {"size": SIZE, "note": {"name": "Note", "optional": True}})
HERE = Place()


def answers(told: str) -> list[str]:
    command = shlex.split(told.partition("with: ")[2])
    assert command[:3] == ["ragflow-lg", "resume", "anna"]
    assert set(command[3::2]) <= {"--input"}
    return command[4::2]


def test_a_command_says_again_what_is_not_the_default() -> None:
    assert HERE.command("resume", "anna") == "ragflow-lg resume anna"
    place = Place("sqlite:///my store.db", Path("my settings.toml"), "demo")
    assert place.command("continue", "a b", "--input", "n=x y").endswith(
        "continue 'a b' --input 'n=x y' --checkpoint 'sqlite:///my store.db' --settings 'my settings.toml' --model demo"
    )
    assert "--model" not in place.command("cancel", "anna")


def test_a_password_is_not_shown() -> None:
    shown = Place("redis://me:secret@there:6379/0").command("resume", "anna")
    assert shown == "ragflow-lg resume anna --checkpoint 'redis://me:***@there:6379/0'"
    assert "redis://there" in Place("redis://there").command("resume", "anna")


def test_how_to_answer_a_turn_that_waits() -> None:
    both = how_to_wait([SHIRT, SHOES], HERE, "anna", is_kept=True)
    assert both == "The turn waits for an answer: ragflow-lg resume anna --input Form:Shirt@NAME=VALUE"
    assert how_to_wait([SHOES], HERE, "anna", is_kept=True).endswith("resume anna --input NAME=VALUE")
    assert how_to_wait([Pause("1", "Form:A", "", {})], HERE, "anna", is_kept=True).endswith("resume anna")
    assert "name a --session" in how_to_wait([SHIRT], HERE, "anna", is_kept=False)


@pytest.mark.parametrize(
    ("pauses", "given", "wanted"),
    [
        ([SHIRT], ["colour=dark blue", "size=big"], ["colour=dark blue", "size=VALUE"]),
        ([SHIRT], ["colour=green", "height=4", "oops"], ["colour=VALUE", "size=VALUE"]),
        ([SHOES], [], ["size=VALUE"]),
        ([SHIRT, SHOES], ["Form:Shoes@size=big"], ["Form:Shoes@size=VALUE"]),
        (
            [SHIRT, SHOES],
            ["Form:Shoes@size=4", "size=big", "note=soon"],
            ["Form:Shirt@colour=VALUE", "Form:Shirt@size=VALUE", "Form:Shoes@size=4", "Form:Shoes@note=soon"],
        ),
        ([SHIRT, SHOES], [], ["Form:Shirt@colour=VALUE", "Form:Shirt@size=VALUE", "Form:Shoes@size=VALUE"]),
    ],
)
def test_what_was_right_is_kept_and_what_is_wrong_or_missing_left_open(
    pauses: list[Pause], given: list[str], wanted: list[str]
) -> None:
    told: Any = how_to_answer(pauses, given, HERE, "anna")
    assert answers(told) == wanted
    assert all(f"{pause.node} ({', '.join(pause.inputs)})" in told for pause in pauses)


def test_nothing_is_open_any_more() -> None:
    assert how_to_answer([], ["a=1"], HERE, "anna") == ""
