from __future__ import annotations

import numpy as np

from ragflow_lg.adapters.knowledge.hash_embedder import HashingEmbedder


async def test_vectors_have_length_1_and_do_not_depend_on_word_order() -> None:
    embedder = HashingEmbedder()
    (vector,) = await embedder.embed_chunks(["Two kettles 水壶"])
    places = [(i, round(x, 4)) for i, x in enumerate(vector) if x]
    assert places == [(61, 0.5774), (102, -0.5774), (188, 0.5774)]
    assert list(await embedder.embed_question("kettle, two 水壶")) == list(vector)


def test_a_text_without_words_has_a_zero_vector() -> None:
    assert not np.any(HashingEmbedder().vectors(["…", ""]))


def test_the_name_says_that_it_is_a_stand_in() -> None:
    assert HashingEmbedder.is_stand_in
    assert "stand-in" in HashingEmbedder.name
