import sys
import tracemalloc
from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragflow_lg.base.errors import CheckpointError, DamagedSessionError
from ragflow_lg.checkpoints.steps.stored_texts import GROUP, blob_digest, decode, encode
from tests.fakes.python_process import python_process


def seal(text: bytes) -> bytes:
    """Return a text with its checksum."""
    return text + b"\x04" + blake2b(text, digest_size=8).hexdigest().encode()


class Blobs(dict[str, bytes]):
    """Stored blobs."""

    async def find(self, digests: Sequence[str]) -> Mapping[str, bytes]:
        return {digest: self[digest] for digest in digests if digest in self}


def encoded(value: Any, known: Collection[str] = ()) -> tuple[bytes, Blobs]:
    """Encode a value; return its text and its new blobs."""
    blobs = Blobs()
    return encode(value, known, blobs), blobs


MEASURE = """
import resource, sys
from ragflow_lg.checkpoints.steps.stored_texts import encode

encode({"a": [1]}, (), {})
value = {"a": eval(sys.argv[1])}
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
encode(value, (), {})
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not report the peak of memory")
@pytest.mark.parametrize(("value", "mebibytes"), [("[1] * 1_000_000", 30), ("[{}, 'ab'] * 100_000", 40)])
def test_encoding_needs_memory_in_proportion_to_the_value(value: str, mebibytes: int) -> None:
    with python_process(MEASURE, value, is_new=True) as process:
        assert int(process.read_line()) < mebibytes * 1024


async def test_a_value_without_large_parts_is_plain_json_with_a_checksum() -> None:
    text, blobs = encoded({"a": [1, "ü", None], "b": {"c": 1.5}})
    json_text, _, checksum = text.partition(b"\x04")
    assert json_text.decode() == '{"a":[1,"ü",null],"b":{"c":1.5}}'
    assert blobs == {}
    for changed in (text.replace(b"1,", b"2,"), json_text + b"\x04" + checksum[::-1], json_text):
        with pytest.raises(CheckpointError, match="has been changed"):
            await decode(changed, Blobs().find)


_SCALAR = st.none() | st.booleans() | st.integers(-(1 << 63), 1 << 63) | st.text(max_size=90) | st.just("x" * 1500)
_VALUE = st.recursive(_SCALAR, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner))


@given(_VALUE, st.integers(0, 40))
async def test_any_value_is_read_back(value: Any, times: int) -> None:
    repeated: Any = {"a": value, "b": [value] * times, "c": {str(number): value for number in range(times)}}
    text, blobs = encoded(repeated)
    assert len(text) < 1100
    assert await decode(text, blobs.find) == repeated
    assert encoded(repeated, blobs) == (text, {})


@pytest.mark.parametrize(
    ("text", "reason"), [("{", "cannot be read"), ("\x01" + "0" * 32 + "\x01", "is missing"), ("", "cannot be read")]
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
        encode({"a": value}, (), {})


def test_a_value_that_could_not_be_read_again_is_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragflow_lg.checkpoints.steps.stored_texts.MAX_EXPANDED_BYTES", 50_000)
    encode({f"n{number}": "x" * 4000 for number in range(12)}, (), {})
    with pytest.raises(CheckpointError, match="cannot be stored"):  # although the text is stored only once
        encode({f"n{number}": "x" * 4000 for number in range(13)}, (), {})


@given(st.lists(st.integers(0, 10**400), max_size=300), st.integers(1, 40))
async def test_a_longer_list_or_map_shares_the_blobs_of_the_shorter_one(entries: list[int], more: int) -> None:
    texts = [f"{entry}" * 3 for entry in entries]
    by_name = {f"{index}": text for index, text in enumerate(texts)}
    before = {"a": {"rows": texts}, "b": texts, "c": by_name}
    after = {"a": {"rows": [*texts, *"y" * more]}, "b": [*texts, *"y" * more], "c": {**by_name, "new": "y" * more}}
    text_before, blobs = encoded(before)
    text_after, new_blobs = encoded(after, blobs)
    blobs.update(new_blobs)
    assert await decode(text_before, blobs.find) == before
    assert await decode(text_after, blobs.find) == after
    size = sum(map(len, new_blobs.values()))
    assert size < 2 * (GROUP * max(map(len, texts), default=0) * 4 + 16 * GROUP * 34 + 8192)


def mark(text: bytes) -> bytes:
    return b"\x01" + blob_digest(text).encode() + b"\x01"


async def test_blobs_that_multiply_are_refused_before_they_are_expanded() -> None:
    inner = b"1" * 1000
    middle = b",".join([mark(inner)] * 2000)
    outer = b",".join([mark(middle)] * 20_000)  # 40 GB when all marks are replaced
    blobs = Blobs({blob_digest(text): text for text in (inner, middle)})
    tracemalloc.start()
    try:
        with pytest.raises(DamagedSessionError, match="larger than"):
            await decode(seal(outer), blobs.find)
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()
