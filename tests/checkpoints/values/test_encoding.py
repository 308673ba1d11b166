import gc
import sys
import tracemalloc
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragflow_lg.base.append_log import FrozenList
from ragflow_lg.base.errors import CheckpointError, DamagedSessionError
from ragflow_lg.base.long_list import BLOCK
from ragflow_lg.checkpoints.values import encoding, small_groups
from ragflow_lg.checkpoints.values.decoding import decode
from ragflow_lg.checkpoints.values.encoding import BLOB_BYTES, GROUP, Encoder, encode_whole
from ragflow_lg.checkpoints.values.marks import blob_digest, blob_mark
from ragflow_lg.checkpoints.values.seals import seal
from tests.fakes.python_process import python_process
from tests.harness.rows import each_row


class Blobs(dict[str, bytes]):
    """Stored blobs."""

    async def find(self, digests: Sequence[str]) -> Mapping[str, bytes]:
        return {digest: self[digest] for digest in digests if digest in self}


def encode(encoder: Encoder, value: dict[str, Any], thread: str = "t") -> tuple[str, Blobs]:
    """Encode a value; return its text and its new blobs, which the encoder then remembers as stored."""
    blobs = Blobs()
    text = encoder.encode(value, thread, blobs)
    encoder.end_write(thread, blobs)
    return text, blobs


MEASURE = """
import resource, sys
from ragflow_lg.checkpoints.values.encoding import Encoder

Encoder().encode({"a": [1]}, "t", {})
value = {"a": eval(sys.argv[1])}
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
Encoder().encode(value, "t", {})
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not report the peak of memory")
@pytest.mark.parametrize(("value", "mebibytes"), [("[1] * 1_000_000", 30), ("[{}, 'ab'] * 100_000", 40)])
def test_encoding_needs_memory_in_proportion_to_the_value(value: str, mebibytes: int) -> None:
    with python_process(MEASURE, value, is_new=True) as process:
        assert int(process.read_line()) < mebibytes * 1024


async def test_a_value_without_large_parts_is_plain_json_with_a_checksum() -> None:
    text, blobs = encode(Encoder(), {"a": [1, "ü", None], "b": {"c": 1.5}})
    json_text, _, checksum = text.partition("\x04")
    assert json_text == '{"a":[1,"ü",null],"b":{"c":1.5}}'
    assert blobs == {}
    for changed in (text.replace("1,", "2,"), f"{json_text}\x04{checksum[::-1]}"):
        with pytest.raises(CheckpointError, match="has been changed"):
            await decode(changed, Blobs().find)


async def test_nested_frozen_lists_are_read_back_and_encoded_once() -> None:
    encoder = Encoder()
    inner = FrozenList(["x" * 30] * 100)
    value = {"collected": {"lines": [["new"], [inner, FrozenList([inner, "y"])]]}}
    _, blobs = encode(encoder, value)
    text, new_blobs = encode(encoder, value)
    assert new_blobs == {}
    assert inner.digest in blobs
    assert await decode(text, blobs.find) == value


async def test_each_thread_has_its_own_blobs() -> None:
    encoder, value = Encoder(), {"a": "z" * 5000, "b": FrozenList([1, 2])}
    for thread in ("one", "two"):
        text, blobs = encode(encoder, value, thread)
        assert len(blobs) == 2
        assert await decode(text, blobs.find) == value
    encoder.known_blobs.forget("one")
    assert len(encode(encoder, value, "one")[1]) == 2


async def test_null_characters_survive_savers_that_remove_their_escape() -> None:
    value = {"a": "\x00", "b": "\\u0000", "c": "\\\x00", "\x00": 1}
    text = Encoder().encode(value, "t", {})
    assert "\\u0000" not in text.replace("\\\\u0000", "")
    assert await decode(text, Blobs().find) == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [("{", "cannot be read"), ("\x01" + "0" * 32 + "\x01", "is missing"), ("", "cannot be read")],
)
async def test_damage_is_reported(text: str, reason: str) -> None:
    with pytest.raises(CheckpointError, match=reason):
        await decode(seal(text.encode()), Blobs().find)


async def test_blobs_that_contain_each_other_are_an_error() -> None:
    one, two = "1" * 32, "2" * 32
    blobs = Blobs({one: f'["\x01{two}\x01"]'.encode(), two: f"[\x01{one}\x01]".encode()})
    with pytest.raises(CheckpointError, match=r"too deeply|larger|cannot be read"):
        await decode(seal(f"\x01{one}\x01".encode()), blobs.find)


def test_a_value_that_is_too_deep_is_rejected() -> None:
    value: Any = "x"
    for _ in range(5000):
        value = [value]
    with pytest.raises(CheckpointError, match="cannot be stored"):
        Encoder().encode({"a": value}, "t", {})


def test_the_number_of_remembered_parts_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragflow_lg.checkpoints.values.known_parts.REMEMBERED_PARTS", 3)
    encoder = Encoder()
    for number in range(10):
        encode(encoder, {"a": f"{number}" * 3000})
    assert len(encoder.known_parts._parts) == 3  # pyright: ignore[reportPrivateUsage] - a cache


def test_the_size_of_remembered_parts_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragflow_lg.checkpoints.values.known_parts.REMEMBERED_PART_BYTES", 10_000)
    encoder = Encoder()
    for number in range(10):
        encoder.encode({"a": f"{number}" * 3000}, "t", {})
    assert len(encoder.known_parts._parts) == 3  # pyright: ignore[reportPrivateUsage] - a cache


def test_a_value_that_could_not_be_read_again_is_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragflow_lg.checkpoints.values.encoding.MAX_EXPANDED_BYTES", 50_000)
    encoder = Encoder()
    encode(encoder, {f"n{number}": "x" * 4000 for number in range(12)})
    with pytest.raises(CheckpointError, match="cannot be stored"):  # although the text is stored only once
        encode(encoder, {f"n{number}": "x" * 4000 for number in range(13)})


@given(st.lists(st.integers(0, 10**400), max_size=300), st.integers(1, 40))
async def test_a_longer_list_or_map_shares_the_blobs_of_the_shorter_one(entries: list[int], more: int) -> None:
    texts = [f"{entry}" * 3 for entry in entries]
    encoder = Encoder()
    by_name = {f"{index}": text for index, text in enumerate(texts)}
    before = {"a": {"rows": texts}, "b": texts, "c": by_name}
    after = {"a": {"rows": [*texts, *"y" * more]}, "b": [*texts, *"y" * more], "c": {**by_name, "new": "y" * more}}
    text_before, blobs = encode(encoder, before)
    text_after, new_blobs = encode(encoder, after)
    blobs.update(new_blobs)
    assert await decode(text_before, blobs.find) == before
    assert await decode(text_after, blobs.find) == after
    size = sum(map(len, new_blobs.values()))
    assert size < 2 * (GROUP * max(map(len, texts), default=0) * 4 + 16 * GROUP * 34 + 8192)


async def test_blobs_that_multiply_are_refused_before_they_are_expanded() -> None:
    inner = b"1" * 1000
    middle = b",".join([blob_mark(blob_digest(inner))] * 2000)
    outer = b",".join([blob_mark(blob_digest(middle))] * 20_000)  # 40 GB when all marks are replaced
    blobs = Blobs({blob_digest(text): text for text in (inner, middle)})
    tracemalloc.start()
    try:
        with pytest.raises(DamagedSessionError, match="larger than"):
            await decode(seal(outer), blobs.find)
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()


async def test_a_long_text_in_several_values_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[int] = []

    def digest(text: bytes) -> str:
        hashed.append(len(text))
        return blob_digest(text)

    monkeypatch.setattr(encoding, "blob_digest", digest)
    encoder, words = Encoder(), ["long "] * 100_000

    def value() -> dict[str, Any]:
        """Return a value with equal texts that are different objects."""
        return {"a": "".join(words), "b": {"c": {"d": "".join(words)}}, "e": ["".join(words), 1]}

    text, blobs = encode(encoder, value())
    encode(encoder, value())
    assert sum(size > 100_000 for size in hashed) == 1
    assert await decode(text, blobs.find) == value()


_SCALAR = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=90) | st.just("x" * 1500)
_VALUE = st.recursive(_SCALAR, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner))


def _never(value: Any, max_bytes: int) -> bytes:
    return b""


@given(
    st.lists(_VALUE) | st.dictionaries(st.text(max_size=9) | st.integers(), _SCALAR, min_size=2 * GROUP),
    st.integers(0, 40),
)
def test_groups_have_the_same_text_as_their_entries(value: list[Any] | dict[Any, Any], times: int) -> None:
    repeated: Any = value * times if isinstance(value, list) else value
    grouped = encode(Encoder(), {"a": repeated, "b": FrozenList(value)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(small_groups, "dump_small", _never)
        assert encode(Encoder(), {"a": repeated, "b": FrozenList(value)}) == grouped


def test_tens_of_thousands_of_variables_are_encoded_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    variables: dict[str, Any] = {f"env.v{number}": number for number in range(45_000)}
    variables["sys.history"] = [["user", "x"]] * 300
    whole = Encoder().encode(variables, "t", first := Blobs(), ("sys.history",))
    monkeypatch.setattr(small_groups, "dump_small", _never)
    assert Encoder().encode(variables, "t", again := Blobs(), ("sys.history",)) == whole
    assert first == again


@pytest.mark.parametrize("entry", ["ab", {"k": "v", "n": 1}, 7])
def test_small_entries_are_not_encoded_one_by_one(entry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    dumps, count = orjson.dumps, 0

    def dump(value: Any, default: Any = None, option: int | None = None) -> bytes:
        nonlocal count
        count += 1
        return dumps(value, default, option)

    monkeypatch.setattr(orjson, "dumps", dump)
    value = {
        "a": [entry] * 16_000,
        "b": {str(n): entry for n in range(16_000)},
        "c": FrozenList([entry] * 999),
    }
    encode(Encoder(), value)
    assert count < 4000


@given(st.recursive(_SCALAR, lambda inner: st.lists(inner, max_size=9) | st.dictionaries(st.text(max_size=9), inner)))
def test_small_values_have_the_same_text_as_when_they_are_encoded_part_by_part(value: Any) -> None:
    if whole := encode_whole(value):
        assert (Encoder().encode(value, "t", blobs := {}, ("", "rows")), blobs) == (whole, {})


@each_row(
    "value",
    [
        "x" * BLOB_BYTES,
        "ü" * (BLOB_BYTES - 9),
        {"a": FrozenList([1])},
        {1: 2},
        [[[[[[[1]]]]]]],
        {"rows": list(range(BLOCK))},
        {f"{number}": 1 for number in range(16)},
        1 << 70,
    ],
)
def test_large_and_special_values_are_encoded_part_by_part(value: Any) -> None:
    assert small_groups.encode_small(value, BLOB_BYTES) == b""


def test_blobs_that_have_been_stored_are_free_at_once() -> None:
    value = {"a": "x" * 100_000, "b": [FrozenList([{"c": "y" * 10_000}])]}
    gc.disable()  # the server collects garbage rarely
    try:
        blobs = Blobs()
        Encoder().encode(value, "t", blobs)
        kept = weakref.ref(blobs)
        assert blobs
        del blobs
        assert kept() is None
    finally:
        gc.enable()
