import pytest

from ragflow_lg.models.classification import (
    NamedCategory,
    describe_categories,
    format_conversation,
    match_category,
    parse_categories,
)
from ragflow_lg.models.engine_prompts import fill_prompt
from ragflow_lg.models.prompt_texts import PROMPTS


@pytest.mark.parametrize(
    ("answer", "names", "expected"),
    [
        ("tech", ["billing", "tech"], "tech"),
        ('"Tech".', ["billing", "tech"], "tech"),
        ("I think TECH.", ["billing", "tech", "other"], "tech"),
        ("billing? no: tech, tech!", ["billing", "tech"], "tech"),
        ("tech or billing", ["billing", "tech"], "billing"),
        ("no idea", ["billing", "tech", "other"], "other"),
        ("", ["billing", "tech"], "tech"),
        ("order", ["order status", "order"], "order"),
        ("order status", ["order", "order status"], "order status"),
        ("It is order status.", ["order", "order status"], "order status"),
        ("Negative review", ["Negative review ", "Positive review"], "Negative review "),
        ("STRASSE", ["x", "straße", "y"], "straße"),
        ("打招呼", ["Other", "打招呼", "Retrieval"], "打招呼"),
    ],
)
def test_an_answer_is_matched_to_a_category(answer: str, names: list[str], expected: str) -> None:
    assert match_category(answer, names) == expected


def test_categories_can_be_parsed_from_the_prompt() -> None:
    categories = [NamedCategory("Bücher ", "zum Lesen\nund mehr", ("a", "b\u2028c")), NamedCategory("rest")]
    system = fill_prompt(PROMPTS["categorize"].text, {"categories": describe_categories(categories)})
    assert all(text in system for text in ("Bücher ", "rest", "a"))
    assert parse_categories(system) == categories
    assert parse_categories("Something else\n" + system) == []


def test_a_conversation_is_one_line() -> None:
    messages = [{"role": "user", "content": "a\nb\r\nc"}, {"role": "assistant", "content": ""}]
    assert format_conversation(messages) == 'USER: "a b c" | ASSISTANT: ""'
