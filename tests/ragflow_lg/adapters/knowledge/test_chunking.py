from ragflow_lg.adapters.knowledge.chunking import Block, format_row, split_into_chunks
from ragflow_lg.base.tokens import estimate_tokens


def test_a_heading_starts_a_chunk_and_precedes_its_text() -> None:
    blocks = [
        Block("Guide", 1, 1, heading=1),
        Block("Intro.", 3, 3),
        Block("Part", 5, 5, heading=2),
        Block("One.", 6, 6),
        Block("Two.", 8, 9),
        Block("Other", 10, 10, heading=1),
    ]
    assert [(p.content, p.positions) for p in split_into_chunks(blocks, 100, 10)] == [
        ("Guide\nIntro.", [[0, 0, 0, 3, 3]]),
        ("Guide > Part\nOne.\nTwo.", [[0, 0, 0, 6, 9]]),
        ("Other", [[0, 0, 0, 10, 10]]),
    ]


def test_a_title_is_no_chunk_if_the_chunks_below_it_begin_with_it() -> None:
    title, part, text = Block("Guide", 1, 1, heading=1), Block("Part", 3, 3, heading=2), Block("One.", 4, 4)
    other = Block("Other", 6, 6, heading=2)
    assert [p.content for p in split_into_chunks([title, part, text], 100, 10)] == ["Guide > Part\nOne."]
    chunks = [p.content for p in split_into_chunks([title, part, other, text], 100, 10)]
    assert chunks == ["Guide > Part", "Guide > Other\nOne."]
    assert [p.content for p in split_into_chunks([title, part], 100, 10)] == ["Guide > Part"]
    assert [p.content for p in split_into_chunks([part, title, text], 100, 10)] == ["Part", "Guide\nOne."]


def test_the_last_sentences_of_a_chunk_are_repeated_in_the_next() -> None:
    text = "First sentence of the text. Second sentence of it. Third one is here. Fourth one is last."
    chunks = [
        p.content for p in split_into_chunks([Block(s + ".", i, i) for i, s in enumerate(text.split(". "))], 16, 6)
    ]
    assert chunks[1].startswith("Third one") or chunks[1].startswith("Second sentence")
    assert len(chunks) > 1
    without = [
        p.content for p in split_into_chunks([Block("a b c d. " * 4, 1, 1), Block("e f g h. " * 4, 2, 2)], 10, 0)
    ]
    assert without == [("a b c d. " * 4).strip(), ("e f g h. " * 4).strip()]


def test_a_chunk_across_pages_has_a_position_for_each_page() -> None:
    blocks = [Block("One.", 9, 9, 1), Block("Two.", 1, 2, 2)]
    assert next(split_into_chunks(blocks, 100, 0)).positions == [[1, 0, 0, 9, 9], [2, 0, 0, 1, 2]]


def test_long_texts_are_split_at_sentences_or_anywhere_without_loss() -> None:
    for text in ("Some words. " * 500, "天地玄黄。" * 300, "x" * 5000, "word " * 2000, "天" * 2000):
        chunks = list(split_into_chunks([Block(text)], 64, 0))
        assert max(estimate_tokens(p.content) for p in chunks) <= 64
        assert "".join("".join(p.content for p in chunks).split()) == "".join(text.split())


def test_chunks_of_a_long_paragraph_have_their_lines() -> None:
    text = "\n".join(f"line number {i} of them" for i in range(1, 31))
    chunks = list(split_into_chunks([Block(text, 11, 40)], 32, 0))
    assert chunks[0].positions[0][3] == 11
    assert chunks[-1].positions[0][4] == 40
    firsts = [p.positions[0][3] for p in chunks]
    assert firsts == sorted(firsts)


def test_a_row_is_formatted_with_its_column_names() -> None:
    assert format_row(["a", "", "c"], ["1", "2", "", "4"]) == "a: 1; 2; 4"
