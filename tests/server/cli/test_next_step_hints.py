import shlex
from pathlib import Path

from ragflow_lg.base.values import JsonValue
from ragflow_lg.runs.pauses import Pause
from ragflow_lg.server.cli.options import PlayOptions
from ragflow_lg.server.cli.play import answer_hint, next_command, waiting_hint
from tests.harness.rows import each_row

SIZE: dict[str, JsonValue] = {"name": "Size", "type": "integer", "optional": False}
COLOUR: dict[str, JsonValue] = {"name": "Colour", "type": "options", "optional": False, "options": ["red", "dark blue"]}
SHIRT = Pause("1", "Form:Shirt", "", {"colour": COLOUR, "size": SIZE})
SHOES = Pause("2", "Form:Shoes", "", {"size": SIZE, "note": {"name": "Note", "optional": True}})
DEFAULTS = PlayOptions()


def answers_in(hint: str) -> list[str]:
    command = shlex.split(hint.partition("with: ")[2])
    assert command[:3] == ["ragflow-lg", "resume", "anna"]
    assert set(command[3::2]) <= {"--input"}
    return command[4::2]


def test_a_command_repeats_options_that_are_not_the_default() -> None:
    assert next_command(DEFAULTS, "resume", "anna") == "ragflow-lg resume anna"
    options = PlayOptions(checkpoint="sqlite:///my store.db", settings=Path("my settings.toml"), model="demo")
    assert next_command(options, "continue", "a b", "--input", "n=x y").endswith(
        "continue 'a b' --input 'n=x y' --checkpoint 'sqlite:///my store.db' --settings 'my settings.toml' --model demo"
    )
    assert "--model" not in next_command(options, "sessions cancel", "anna")


def test_a_password_is_masked() -> None:
    command = next_command(PlayOptions(checkpoint="redis://me:secret@there:6379/0"), "resume", "anna")
    assert command == "ragflow-lg resume anna --checkpoint 'redis://me:***@there:6379/0'"
    assert "redis://there" in next_command(PlayOptions(checkpoint="redis://there"), "resume", "anna")


def test_a_hint_how_to_answer_a_turn_that_waits() -> None:
    both = waiting_hint([SHIRT, SHOES], DEFAULTS, "anna", is_stored=True)
    assert both == "The turn waits for an answer: ragflow-lg resume anna --input Form:Shirt@NAME=VALUE"
    assert waiting_hint([SHOES], DEFAULTS, "anna", is_stored=True).endswith("resume anna --input NAME=VALUE")
    assert waiting_hint([Pause("1", "Form:A", "", {})], DEFAULTS, "anna", is_stored=True).endswith("resume anna")
    assert "with --session NAME" in waiting_hint([SHIRT], DEFAULTS, "anna", is_stored=False)


@each_row(
    ("pauses", "entries", "expected"),
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
def test_valid_entries_are_repeated_and_others_left_open(
    pauses: list[Pause], entries: list[str], expected: list[str]
) -> None:
    hint = answer_hint(pauses, entries, DEFAULTS, "anna")
    assert answers_in(hint) == expected
    assert all(f"{pause.node} ({', '.join(pause.inputs)})" in hint for pause in pauses)


def test_without_an_open_form_there_is_no_hint() -> None:
    assert answer_hint([], ["a=1"], DEFAULTS, "anna") == ""
