import re
from pathlib import Path

import pytest

import ragflow_lg
from ragflow_lg.base import extras
from ragflow_lg.models.prompt_texts import PROMPTS, all_prompts
from ragflow_lg.server.cli.command_line import find_commands
from ragflow_lg.server.cli.terminal import paint, printable
from tests.harness.rows import each_row
from tests.server.cli.command import SUPPORT, call, invoke, one_line

COMMANDS = {name: command for name, (command, _) in find_commands().items()}


@each_row("name", COMMANDS)
def test_the_help_of_each_command_describes_it_as_the_list_does_and_has_an_example(name: str) -> None:
    shown = invoke(*name.split(), "--help").stdout
    assert one_line(shown.split("\n\n")[1]).startswith(COMMANDS[name].summary)
    if name not in ("kb", "sandbox", "canvas"):  # groups of commands
        assert f"ragflow-lg {name}" in re.split("Examples?:", shown)[1]


@each_row("words", [[], ["canvas"], ["kb"], ["models"], ["memory"], ["sandbox"], ["sessions"]])
def test_no_line_of_the_help_is_cut_or_longer_than_80_columns(words: list[str]) -> None:
    lines = invoke(*words, "--help", environment={"COLUMNS": "80"}).stdout.splitlines()
    assert [line for line in lines if (line.endswith("...") and "Usage" not in line) or len(line) > 80] == []


def test_commands_are_listed_in_groups_each_on_one_line() -> None:
    shown = invoke("--help", environment={"COLUMNS": "80"}).stdout
    for name, listed in COMMANDS.items():
        if " " in name:
            continue
        section = shown.split(f"\n{listed.heading}:\n")[1].split("\n\n")[0]
        assert re.search(rf"^  {re.escape(name)} +{re.escape(listed.summary)}$", section, re.MULTILINE), name


@each_row("shell", ["bash", "zsh", "fish"])
def test_a_shell_can_complete_commands(shell: str) -> None:
    typed = {"COMP_WORDS": "ragflow-lg ses", "COMP_CWORD": "1", "_TYPER_COMPLETE_ARGS": "ragflow-lg ses"}
    found = invoke(
        environment={"_RAGFLOW_LG_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_FISH_ACTION": "get-args", **typed}
    )
    assert "sessions" in found.stdout


@each_row("option", ["--version", "-V"])
def test_the_version_is_shown(option: str) -> None:
    assert invoke(option).stdout == f"{ragflow_lg.__version__}\n"
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", ragflow_lg.__version__)


@each_row("words", [[], ["check"], ["kb", "add"], ["keys"]])
def test_help_has_a_short_option(words: list[str]) -> None:
    assert invoke(*words, "-h").stdout == invoke(*words, "--help").stdout
    assert "Usage:" in invoke(*words, "-h").stdout


@each_row(
    ("words", "message"),
    [
        (["ru", "x.json"], "No such command 'ru'"),
        (
            ["run", "x.json", "-e", "yaml"],
            "Invalid value for '--events' / '-e': 'yaml' is not one of 'pretty', 'json'.",
        ),
        (["run", SUPPORT, "--record", "a", "--replay", "b"], "either --record or --replay"),
        (["run", SUPPORT, "--model", "demo", "--replay", "b"], "leave out --model"),
        (["run", SUPPORT, "--replay-mode", "loose"], "add --replay"),
        (["run", "x.json", "--session", " "], "needs a name"),
    ],
)
def test_wrong_words_are_refused(words: list[str | Path], message: str) -> None:
    result = invoke(*words)
    assert (result.exit_code, message in one_line(result.stderr)) == (2, True), result.stderr


def test_a_missing_extra_of_the_language_server_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(extras.EXTRAS, "lsp", ("no_such_module",))
    done = call("lsp")
    assert (done.returncode, done.stdout) == (2, "")
    assert "ragflow-lg lsp needs no_such_module. Install it with: pip install '" in done.stderr
    assert "[lsp]'" in done.stderr


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    file = tmp_path / "s.toml"
    file.write_text('[prompts]\nreflection = "Think."\n')
    return file


def test_all_prompts_are_listed(settings: Path) -> None:
    lines = invoke("prompts", "--settings", settings).stdout.splitlines()
    assert [line.split()[0] for line in lines[: len(all_prompts())]] == list(all_prompts())
    assert [line.split()[0] for line in lines if "(replaced)" in line] == ["reflection"]


def test_the_text_in_use_is_printed(settings: Path) -> None:
    assert invoke("prompts", "reflection", "--settings", settings).stdout == "Think.\n"
    assert invoke("prompts", "categorize", "--settings", settings).stdout == PROMPTS["categorize"].text + "\n"


def test_a_style_replaces_what_ragflow_has_as_well(settings: Path) -> None:
    settings.write_text('[prompts]\nstyle = "ragflow"\nreflection = "Think."\n')
    lines = invoke("prompts", "--settings", settings).stdout.splitlines()
    replaced = {line.split()[0] for line in lines if "(replaced)" in line}
    assert replaced == {name for name, prompt in all_prompts().items() if prompt.ragflow}
    assert invoke("prompts", "translation", "--settings", settings).stdout == PROMPTS["translation"].ragflow + "\n"
    assert invoke("prompts", "reflection", "--settings", settings).stdout == "Think.\n"


def test_an_unknown_prompt_is_refused(settings: Path) -> None:
    result = invoke("prompts", "categorise", "--settings", settings)
    assert result.exit_code == 2
    assert "There is no prompt 'categorise'. Did you mean categorize?" in one_line(result.output)


def test_control_characters_become_spaces() -> None:
    assert printable("a\x1b[31m\x9b\x07\r\u202e\ud800b") == "a [31m     b"


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
