from ragflow_lg.models.classification import (
    NamedCategory,
    describe_categories,
    format_conversation,
    match_category,
    parse_categories,
)
from ragflow_lg.models.engine_prompts import fill_prompt
from ragflow_lg.models.prompt_texts import PROMPTS
from tests.harness.rows import each_row, read_rows


@each_row(("answer", "names", "expected"), read_rows("categories_of_answers"))
def test_an_answer_is_matched_to_a_category(answer: str, names: list[str], expected: str | None) -> None:
    assert match_category(answer, names) == expected


def test_categories_can_be_parsed_from_the_prompt() -> None:
    categories = [NamedCategory("Bücher ", "zum Lesen\nund mehr", ("a", "b\u2028c")), NamedCategory("rest")]
    system = fill_prompt(PROMPTS["categorize"].text, describe_categories(categories))
    assert all(text in system for text in ("Bücher ", "rest", "a"))
    assert parse_categories(system) == categories
    assert parse_categories("Something else\n" + system) == []
    categories = [NamedCategory("Bücher", "zum Lesen", ("a", "b c")), NamedCategory("rest")]
    assert parse_categories(fill_prompt(PROMPTS["categorize"].ragflow, describe_categories(categories))) == categories


def test_a_conversation_is_one_line() -> None:
    messages = [{"role": "user", "content": "a\nb\r\nc"}, {"role": "assistant", "content": ""}]
    assert format_conversation(messages) == 'USER: "a b c" | ASSISTANT: ""'
