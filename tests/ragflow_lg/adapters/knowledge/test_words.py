from __future__ import annotations

import pytest

from ragflow_lg.adapters.knowledge.words import MAX_QUESTION_WORDS, question_words, words_of


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The POLICIES of user_id, 2 buses", ["the", "policy", "of", "user_id", "2", "buse"]),
        ("class bus is as", ["class", "bus", "is", "as"]),
        ("年假", ["年假"]),
        ("天", ["天"]),
        ("iPhone手机壳", ["iphone", "手机", "机壳"]),
        ("ＡＢＣ１２", ["abc12"]),
        ("東京タワー", ["東京", "京タ", "タワ", "ワー"]),
        ("서울시", ["서울", "울시"]),
        ("Straße ÜBER", ["strasse", "über"]),
        ("Привет, мир", ["привет", "мир"]),
        ('" OR * NEAR( -', ["or", "near"]),
        ("", []),
    ],
    ids=str,
)
def test_words_of_every_script(text: str, words: list[str]) -> None:
    assert words_of(text) == words


def test_ascii_and_other_texts_are_cut_alike() -> None:
    text = "Policies of user_id 12, classes and buses: 3.5 kg"
    assert words_of(text + " é")[:-1] == words_of(text)


def test_a_question_of_function_words_keeps_them() -> None:
    assert question_words("What is it?") == ["what", "is", "it"]
    assert question_words("什么") == ["什么"]


def test_a_huge_question_is_bounded() -> None:
    assert len(question_words(" ".join(f"w{i}" for i in range(100_000)))) == MAX_QUESTION_WORDS
    assert len(question_words("x" * 1_000_000)[0]) == 64
