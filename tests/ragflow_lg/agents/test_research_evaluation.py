"""The questions of `tests.harness.research`: the model follows the text that it is shown, and knows no answer."""

from pathlib import Path

import pytest

from tests.harness.research import WAYS, answer, follow, load_questions, open_corpus, read_facts

QUESTIONS = load_questions()


def test_there_are_twelve_questions_of_two_to_four_hops() -> None:
    assert [question["hops"] for question in QUESTIONS].count(2) >= 3
    assert (len(QUESTIONS), {question["hops"] for question in QUESTIONS}) == (12, {2, 3, 4})


def test_the_model_answers_only_from_facts_that_it_has_read() -> None:
    question = "What is the founder of the shipyard of Korvel?"
    assert follow(question, []).missing == ["shipyard of Korvel"]
    facts = [*read_facts("ID: 7\nTern Yard is the shipyard of Korvel. A bell rings.")]
    assert follow(question, facts).missing == ["founder of Tern Yard"]
    facts += read_facts("The founder of Tern Yard is Ansa Brill. [ID:9] It rains.")
    assert follow(question, facts).answers == ["Ansa Brill"]
    assert [fact.number for fact in facts] == ["7", "9"]


@pytest.mark.parametrize("title", [title for title in WAYS if "deep_research" in title])
async def test_a_research_answers_and_cites_every_question(title: str, tmp_path: Path) -> None:
    way, options = WAYS[title]
    knowledge = open_corpus(tmp_path / "atlas.db")
    scores = [await answer(way, question, knowledge, **options) for question in QUESTIONS]
    assert all(score.is_answered and score.is_cited for score in scores)
    assert all(score.rounds >= question["hops"] for score, question in zip(scores, QUESTIONS, strict=True))


async def test_one_search_is_not_enough(tmp_path: Path) -> None:
    knowledge = open_corpus(tmp_path / "atlas.db")
    scores = [await answer("retrieval", question, knowledge) for question in QUESTIONS]
    assert sum(score.is_answered for score in scores) <= 2
