from pathlib import Path

from ragflow_lg.models.prompt_texts import PROMPTS

PAGE = Path(__file__).parents[3] / "docs" / "agents.md"


def test_every_prompt_is_documented_with_what_it_needs() -> None:
    table = PAGE.read_text("utf-8").partition("## All prompts")[2].partition("\n## ")[0]
    rows = {line.split("|")[1].strip(" `"): line for line in table.splitlines() if line.startswith("| `")}
    assert list(rows) == list(PROMPTS)
    for name, prompt in PROMPTS.items():
        assert all(f"`{part}`" in rows[name] for part in prompt.needs), name
