import re
from pathlib import Path

from ragflow_lg.models.engine_prompts import fill_prompt, find_prompt_problems
from ragflow_lg.models.prompt_texts import all_prompts
from tests.harness.rows import each_row

PROMPTS = all_prompts()
PAGE = Path(__file__).parents[3] / "docs" / "agents.md"


@each_row("name", PROMPTS)
def test_a_default_text_contains_what_a_replacement_must_contain(name: str) -> None:
    assert list(find_prompt_problems({name: PROMPTS[name].text})) == []
    placeholders = set(re.findall(r"\{[a-z_]+\}", PROMPTS[name].text))
    assert {part for part in PROMPTS[name].needs if part.startswith("{")} <= placeholders


def test_every_prompt_is_documented_with_what_it_needs() -> None:
    table = PAGE.read_text("utf-8").partition("## All prompts")[2].partition("\n## ")[0]
    rows = {line.split("|")[1].strip(" `"): line for line in table.splitlines() if line.startswith("| `")}
    assert list(rows) == list(PROMPTS)
    for name, prompt in PROMPTS.items():
        assert all(f"`{part}`" in rows[name] for part in prompt.needs), name


def test_values_are_filled_in_once_and_other_braces_stay() -> None:
    text = 'a {question} {"key": {x}} {fields}'
    assert fill_prompt(text, {"question": "{fields}", "fields": "F"}) == 'a {fields} {"key": {x}} F'


@each_row(
    ("name", "text", "problem"),
    [
        ("categorise", "x", "categorise: there is no prompt with this name. Did you mean 'categorize'?"),
        ("zzz", "x", "zzz: there is no prompt with this name."),
        ("reflection", " ", "reflection: the text is empty. Remove the entry to use the default."),
        ("metadata_filter", "{fields}", "metadata_filter: the text must contain {question}."),
        ("plan_generation", "Plan.", "plan_generation: the text must contain complete_task."),
    ],
)
def test_problems_with_replacements_are_described(name: str, text: str, problem: str) -> None:
    assert list(find_prompt_problems({name: text})) == [problem]
