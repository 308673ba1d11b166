from typing import Any

import orjson

from ragflow_lg.checkpoints.values.decoding import decode
from ragflow_lg.checkpoints.values.encoding import BLOB_BYTES, Encoder
from ragflow_lg.checkpoints.values.known_parts import REMEMBERED_MAPS, KnownEntries


class NotingEncode:
    """Encodes entries, and notes their keys."""

    def __init__(self) -> None:
        self.keys: list[Any] = []

    def __call__(self, key: Any, part: Any) -> bytes:
        self.keys.append(key)
        return f"{key}:{part}".encode()


def test_only_new_entries_are_encoded() -> None:
    known, encode = KnownEntries(), NotingEncode()
    first = {"a": [1], "b": [2]}
    assert known.encode("t", first, encode) == [b"a:[1]", b"b:[2]"]
    assert known.encode("t", {**first, "c": [3], "a": [4]}, encode) == [b"a:[4]", b"b:[2]", b"c:[3]"]
    assert encode.keys == ["a", "b", "a", "c"]


def test_an_equal_value_of_another_type_is_encoded() -> None:
    known, encode = KnownEntries(), NotingEncode()
    texts = [known.encode("t", {"a": value}, encode) for value in (1, True, 1.0)]
    assert texts == [[b"a:1"], [b"a:True"], [b"a:1.0"]]


def test_keys_that_are_not_texts_are_not_remembered() -> None:
    known, encode = KnownEntries(), NotingEncode()
    part: list[int] = []
    for key in (1, True, 1.0):
        known.encode("t", {key: part}, encode)
    assert encode.keys == [1, True, 1.0]


def test_texts_with_marks_are_not_remembered() -> None:
    known, part = KnownEntries(), ["x"]
    results = iter((b"\x01", b"\x03", b"x", b"y"))
    texts = [known.encode("t", {"a": part}, lambda key, part: next(results)) for _ in range(4)]
    assert texts == [[b"\x01"], [b"\x03"], [b"x"], [b"x"]]


def test_places_have_entries_of_their_own_and_old_ones_are_forgotten() -> None:
    known, encode, part = KnownEntries(), NotingEncode(), ["x"]
    for place in (*range(REMEMBERED_MAPS + 1), REMEMBERED_MAPS, 0):
        known.encode(place, {"a": part}, encode)
    assert len(encode.keys) == REMEMBERED_MAPS + 2


def test_a_growing_map_has_the_text_of_a_new_one() -> None:
    encoder = Encoder()
    outputs: dict[str, Any] = {}
    for number in range(120):
        outputs = {**outputs, f"node {number % 100}": {"result": "é\x00" * (number % 7 * BLOB_BYTES // 6), "n": number}}
        blobs: dict[str, bytes] = {}
        text = encoder.encode(outputs, "t", blobs, channel="outputs")
        encoder.end_write("t", blobs)
        assert text == Encoder().encode(outputs, "t", {}, channel="outputs")


async def test_a_map_whose_thread_was_deleted_is_stored_as_a_whole() -> None:
    encoder, outputs = Encoder(), {f"n{i}": {"result": "x" * i} for i in range(60)}
    stored: list[dict[str, bytes]] = [{}, {}]
    texts = [encoder.encode(outputs, "t", stored[0], channel="outputs")]
    encoder.end_write("t", stored[0])
    encoder.known_blobs.forget("t")
    texts.append(encoder.encode(outputs, "t", stored[1], channel="outputs"))
    assert texts[0] == texts[1]
    assert stored[0] == stored[1] != {}

    async def find(digests: Any) -> dict[str, bytes]:
        return {digest: stored[1][digest] for digest in digests}

    assert orjson.dumps(await decode(texts[1], find)) == orjson.dumps(outputs)
