import re
import subprocess
import sys
from pathlib import Path

import pytest

import ragflow_lg
from ragflow_lg.server.cli.command_line import MOVED, find_commands
from tests.harness.rows import each_row
from tests.server.cli.command import ROOT, invoke, one_line, write_canvas

COMMANDS = {name: command for name, (command, _) in find_commands().items()}


@each_row("name", COMMANDS)
def test_the_help_of_each_command_has_an_example(name: str) -> None:
    result = invoke(name, "--help")
    assert result.exit_code == 0
    if name not in ("kb", "sandbox", "canvas"):  # groups of commands
        examples = re.split("Examples?:", result.stdout)[1]
        assert f"ragflow-lg {name}" in examples


@each_row("name", COMMANDS)
def test_the_list_of_commands_describes_each_as_its_own_help_does(name: str) -> None:
    paragraphs = invoke(name, "--help").stdout.split("\n\n")
    assert one_line(paragraphs[1]).startswith(COMMANDS[name].summary)


@each_row("words", [[], ["canvas"], ["kb"], ["models"], ["memory"], ["sandbox"], ["sessions"]])
def test_no_line_of_the_help_is_cut_or_longer_than_80_columns(words: list[str]) -> None:
    lines = invoke(*words, "--help", environment={"COLUMNS": "80"}).stdout.splitlines()
    assert [line for line in lines if (line.endswith("...") and "Usage" not in line) or len(line) > 80] == []


def test_commands_are_listed_in_groups_each_on_one_line() -> None:
    shown = invoke("--help", environment={"COLUMNS": "80"}).stdout
    for name, listed in COMMANDS.items():
        section = shown.split(f"\n{listed.heading}:\n")[1].split("\n\n")[0]
        assert re.search(rf"^  {re.escape(name)} +{re.escape(listed.summary)}$", section, re.MULTILINE), name


def test_a_command_may_follow_an_option() -> None:
    assert invoke("--", "check", "--help").stdout == invoke("check", "--help").stdout


@pytest.mark.parametrize(
    ("component", "heavy"),
    [
        ("StringTransform", ("asyncio", "langgraph", "langchain_core", "httpx", "openai", "pydantic_settings", "rich")),
        ("LLM", ("langgraph", "langchain_core", "openai")),  # its provider is looked up in the settings
    ],
)
def test_check_and_help_stay_light(tmp_path: Path, component: str, heavy: tuple[str, ...]) -> None:
    params = {"prompts": [{"role": "user", "content": "x"}], "method": "merge", "script": "x"}
    canvas = write_canvas(tmp_path / "c.json", ("begin", "Begin", {}, ["a"]), ("a", component, params, []))
    code = (
        "import sys\nfrom ragflow_lg.server.cli.command_line import app\n"
        f"app(['check', {str(canvas)!r}], standalone_mode=False)\n"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_all_commands_are_listed_and_a_misspelt_one_is_refused() -> None:
    listed = invoke("--help").stdout
    assert [name for name in COMMANDS if f"  {name} " not in listed] == []
    misspelt = invoke("ru", "x.json")
    assert misspelt.exit_code == 2
    assert "No such command 'ru'" in misspelt.stderr


@each_row("name", MOVED)
def test_the_old_name_of_a_command_says_the_new_one(name: str) -> None:
    refused = invoke(name, "x.json")
    assert refused.exit_code == 2
    assert f"`ragflow-lg {name}` is now `ragflow-lg {MOVED[name]}`." in one_line(refused.stderr)
    if not MOVED[name].startswith("-"):
        assert invoke(*MOVED[name].split(), "--help").exit_code == 0


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_can_complete_commands(shell: str) -> None:
    typed = {"COMP_WORDS": "ragflow-lg ses", "COMP_CWORD": "1", "_TYPER_COMPLETE_ARGS": "ragflow-lg ses"}
    found = invoke(
        environment={"_RAGFLOW_LG_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_FISH_ACTION": "get-args", **typed}
    )
    assert "sessions" in found.stdout


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_version_is_shown(option: str) -> None:
    assert invoke(option).stdout == f"{ragflow_lg.__version__}\n"
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", ragflow_lg.__version__)


@pytest.mark.parametrize("words", [[], ["check"], ["kb", "add"], ["keys"]])
def test_help_has_a_short_option(words: list[str]) -> None:
    assert invoke(*words, "-h").stdout == invoke(*words, "--help").stdout
    assert "Usage:" in invoke(*words, "-h").stdout


def test_a_wrong_choice_is_reported_without_a_prefix() -> None:
    result = invoke("run", "x.json", "--events", "yaml")
    assert result.exit_code == 2
    assert "Invalid value for '--events' / '-e': 'yaml' is not one of 'json', 'pretty'." in one_line(result.stderr)
