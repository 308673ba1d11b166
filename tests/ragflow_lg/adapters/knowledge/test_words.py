from ragflow_lg.adapters.knowledge.words import MAX_QUESTION_WORDS, extract_question_words, split_words
from tests.harness.rows import each_row


@each_row(
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
)
def test_texts_of_every_script_are_split(text: str, words: list[str]) -> None:
    assert split_words(text) == words


def test_a_question_of_only_function_words_keeps_them() -> None:
    assert extract_question_words("What is it?") == ["what", "is", "it"]
    assert extract_question_words("什么") == ["什么"]


def test_the_words_of_a_huge_question_are_limited() -> None:
    assert len(extract_question_words(" ".join(f"w{i}" for i in range(100_000)))) == MAX_QUESTION_WORDS
    assert len(extract_question_words("x" * 1_000_000)[0]) == 64
