import re
from pathlib import Path

from ragflow_lg.models.engine_prompts import fill_prompt, find_prompt_problems
from ragflow_lg.models.prompt_texts import STYLES, all_prompts, chosen_text
from tests.harness.rows import each_row

PROMPTS = all_prompts()
PAGE = Path(__file__).parents[3] / "docs" / "agents.md"


@each_row("name", PROMPTS)
def test_the_texts_of_all_styles_contain_what_a_replacement_must_contain(name: str) -> None:
    for style in STYLES:
        assert list(find_prompt_problems({"style": style, name: chosen_text({"style": style}, name)})) == []


def rows_of(heading: str) -> dict[str, str]:
    """Return the rows of a table by the names in their first cells."""
    table = PAGE.read_text("utf-8").partition(f"### {heading}\n")[2].partition("\n#")[0]
    lines = [line for line in table.splitlines() if line.startswith("| `")]
    return {name: line for line in lines for name in re.findall(r"`(\w+)`", line.split("|")[1])}


def test_every_prompt_is_documented_with_its_placeholders() -> None:
    rows = rows_of("All prompts")
    assert list(rows) == list(PROMPTS)
    for name, prompt in PROMPTS.items():
        parts = [*re.findall(r"\{[a-z_]+\}", prompt.text + prompt.ragflow), *" or ".join(prompt.needs).split(" or ")]
        assert [part for part in parts if part and f"`{part}`" not in rows[name]] == [], name


def test_the_page_compares_every_prompt_of_the_style_with_ragflows() -> None:
    assert list(rows_of("Ask as RAGFlow does")) == [name for name, prompt in PROMPTS.items() if prompt.ragflow]


def test_a_text_of_the_deployment_precedes_that_of_its_style() -> None:
    styled = {"style": "ragflow"}
    assert chosen_text(styled, "reflection") == PROMPTS["reflection"].ragflow
    assert chosen_text({**styled, "reflection": "Think."}, "reflection") == "Think."
    assert chosen_text(styled, "react") == PROMPTS["react"].text
    assert (
        chosen_text({"style": "default"}, "reflection") == chosen_text({}, "reflection") == PROMPTS["reflection"].text
    )


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
        ("categorize", "Choose.", "categorize: the text must contain {categories} or {names}."),
        ("style", "ragflw", "style: there is no style 'ragflw'. The styles are default and ragflow."),
        ("styl", "ragflow", "styl: there is no prompt with this name. Did you mean 'style'?"),
    ],
)
def test_problems_with_replacements_are_described(name: str, text: str, problem: str) -> None:
    assert list(find_prompt_problems({name: text})) == [problem]
