from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragflow_lg.base.append_log import FrozenList
from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints.codec import GROUP, Codec


class Texts(dict[str, bytes]):
    async def find(self, digests: Sequence[str]) -> Mapping[str, bytes]:
        return {digest: self[digest] for digest in digests if digest in self}


async def test_a_value_without_large_parts_is_plain_json() -> None:
    blobs: dict[str, bytes] = {}
    text = Codec().encode({"a": [1, "ü", None], "b": {"c": 1.5}}, "t", blobs)
    assert (text, blobs) == ('{"a":[1,"ü",null],"b":{"c":1.5}}', {})


async def test_nested_sealed_lists_come_back_and_are_encoded_once() -> None:
    codec, texts = Codec(), Texts()
    inner = FrozenList(["x" * 30] * 100)
    value = {"collected": {"lines": [["new"], [inner, FrozenList([inner, "y"])]]}}
    for _ in range(2):
        fresh: dict[str, bytes] = {}
        text = codec.encode(value, "t", fresh)
        texts.update(fresh)
        codec.remember_blobs("t", fresh)
    assert fresh == {}
    assert inner.digest in texts
    assert await Codec().decode(text, texts.find) == value


async def test_another_thread_gets_its_own_copy() -> None:
    codec, value = Codec(), {"a": "z" * 5000, "b": FrozenList([1, 2])}
    for thread in ("one", "two"):
        fresh: dict[str, bytes] = {}
        text = codec.encode(value, thread, fresh)
        assert len(fresh) == 2
        codec.remember_blobs(thread, fresh)
        assert await codec.decode(text, Texts(fresh).find) == value
    codec.forget("one")
    again: dict[str, bytes] = {}
    codec.encode(value, "one", again)
    assert len(again) == 2


async def test_null_characters_survive_savers_that_strike_their_escape() -> None:
    value = {"a": "\x00", "b": "\\u0000", "c": "\\\x00", "\x00": 1}
    text = Codec().encode(value, "t", {})
    assert "\\u0000" not in text.replace("\\\\u0000", "")
    assert await Codec().decode(text, Texts().find) == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [("{", "cannot be read"), ("\x01" + "0" * 32 + "\x01", "is missing"), ("", "cannot be read")],
)
async def test_damage_is_told(text: str, reason: str) -> None:
    with pytest.raises(CheckpointError, match=reason):
        await Codec().decode(text, Texts().find)


async def test_blobs_that_hold_each_other_end() -> None:
    one, two = "1" * 32, "2" * 32
    texts = Texts({one: f'["\x01{two}\x01"]'.encode(), two: f"[\x01{one}\x01]".encode()})
    with pytest.raises(CheckpointError, match=r"too deeply|larger|cannot be read"):
        await Codec().decode(f"\x01{one}\x01", texts.find)


def test_what_is_too_deep_is_refused() -> None:
    value: Any = "x"
    for _ in range(5000):
        value = [value]
    with pytest.raises(CheckpointError, match="cannot be stored"):
        Codec().encode({"a": value}, "t", {})


def test_the_memory_of_parts_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragflow_lg.checkpoints.codec.REMEMBERED_PARTS", 3)
    monkeypatch.setattr("ragflow_lg.checkpoints.codec.REMEMBERED_BLOBS", 3)
    codec = Codec()
    for number in range(10):
        fresh: dict[str, bytes] = {}
        codec.encode({"a": f"{number}" * 3000}, "t", fresh)
        codec.remember_blobs("t", fresh)
    assert len(codec._parts) == 3  # pyright: ignore[reportPrivateUsage]
    assert sum(map(len, codec._known.values())) <= 3  # pyright: ignore[reportPrivateUsage]


def test_the_memory_of_parts_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragflow_lg.checkpoints.codec.REMEMBERED_PART_BYTES", 10_000)
    codec = Codec()
    for number in range(10):
        codec.encode({"a": f"{number}" * 3000}, "t", {})
    assert len(codec._parts) == 3  # pyright: ignore[reportPrivateUsage]


def test_what_could_not_be_read_again_is_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragflow_lg.checkpoints.codec.MAX_EXPANDED_BYTES", 50_000)
    codec, blobs = Codec(), dict[str, bytes]()
    codec.encode({f"n{number}": "x" * 4000 for number in range(12)}, "t", blobs)
    codec.remember_blobs("t", blobs)
    with pytest.raises(CheckpointError, match="not stored"):  # though the same text is there but once
        codec.encode({f"n{number}": "x" * 4000 for number in range(13)}, "t", blobs)


@given(st.lists(st.integers(0, 10**400), max_size=300), st.integers(1, 40))
async def test_a_list_or_map_that_has_grown_shares_its_blobs(entries: list[int], more: int) -> None:
    texts = [f"{entry}" * 3 for entry in entries]
    codec, first, second = Codec(), dict[str, bytes](), dict[str, bytes]()
    named = {f"{index}": text for index, text in enumerate(texts)}
    before = {"a": {"rows": texts}, "b": texts, "c": named}
    after = {"a": {"rows": [*texts, *"y" * more]}, "b": [*texts, *"y" * more], "c": {**named, "new": "y" * more}}
    told = codec.encode(before, "t", first)
    codec.remember_blobs("t", first)
    retold = codec.encode(after, "t", second)
    everything = Texts({**first, **second})
    assert await Codec().decode(told, everything.find) == before
    assert await Codec().decode(retold, everything.find) == after
    sizes = sum(map(len, second.values()))
    assert sizes < 2 * (GROUP * max(map(len, texts), default=0) * 4 + 16 * GROUP * 34 + 8192)
