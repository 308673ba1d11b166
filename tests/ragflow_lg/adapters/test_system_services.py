from typing import Any, cast

import pytest

from ragflow_lg.adapters.system_services import OVERHEAD_BYTES, InlineFiles, MemoryResultCache
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.values import JsonValue
from tests.fakes.services import FixedClock
from tests.harness.rows import each_row

PIXEL = "data:image/png;base64,AAAA"


async def test_contents_are_returned_in_order() -> None:
    files = [
        "text",
        PIXEL,
        {"content": "c", "text": "t"},
        {"text": "t"},
        {"name": "x.png", "value": PIXEL},
        "/etc/passwd",
    ]
    assert await InlineFiles().read(files) == ["text", PIXEL, "c", "t", PIXEL, "/etc/passwd"]


@each_row(
    ("file", "description"),
    [
        ({"id": "f1", "name": "a.pdf"}, "'a.pdf'"),
        ({"id": "f1"}, "'f1'"),
        ({"path": "/etc/passwd"}, "File 2 has no content, and no file store is configured"),
        ({"content": b"x"}, "File 2 has no content"),
        (7, "File 2 is not a file but of type int"),
        (None, "File 2 is not a file but of type NoneType"),
    ],
)
async def test_a_file_without_content_cannot_be_read(file: Any, description: str) -> None:
    with pytest.raises(ServiceError, match="Send the text itself") as caught:
        await InlineFiles().read(["first", file])

    assert description in str(caught.value)


class Clock(FixedClock):
    def advance(self, seconds: float) -> None:
        self._now += seconds


async def test_results_expire_after_their_lifetime() -> None:
    clock = Clock()
    cache = MemoryResultCache({"wiki*": 10, "*": 1}, clock)
    await cache.put(["Wikipedia"], {"n": 1}, {"q": "x"}, {"value": [1, "é"]})
    clock.advance(9)
    assert await cache.find(["Wikipedia"], {"n": 1}, {"q": "x"}) == (True, {"value": [1, "é"]})
    others: list[tuple[JsonValue, JsonValue]] = [({"n": 2}, {"q": "x"}), ({"n": 1}, {"q": "y"})]
    for configuration, arguments in others:
        assert await cache.find(["Wikipedia"], configuration, arguments) == (False, None)
    assert await cache.find(["Wikipedia2"], {"n": 1}, {"q": "x"}) == (False, None)
    clock.advance(1)
    assert await cache.find(["Wikipedia"], {"n": 1}, {"q": "x"}) == (False, None)


async def test_tools_without_a_lifetime_are_not_cached() -> None:
    cache = MemoryResultCache({"Wikipedia": 10}, FixedClock())
    assert cache.covers(["Wikipedia"])
    assert not cache.covers(["TavilySearch"])
    assert not cache.covers([])
    await cache.put(["TavilySearch"], None, {}, "x")
    assert await cache.find(["TavilySearch"], None, {}) == (False, None)


async def test_the_least_recently_used_results_are_evicted() -> None:
    cache = MemoryResultCache({"*": 10}, FixedClock(), max_bytes=3 * (OVERHEAD_BYTES + 100))
    for name in ("a", "b", "c"):
        await cache.put([name], None, {}, "x" * 90)
    await cache.find(["a"], None, {})
    await cache.put(["d"], None, {}, "x" * 90)
    assert [(await cache.find([name], None, {}))[0] for name in "abcd"] == [True, False, True, True]
    await cache.put(["large"], None, {}, "x" * 10_000)
    assert [(await cache.find([name], None, {}))[0] for name in ("large", "a")] == [False, True]


async def test_callers_get_a_copy_of_the_result() -> None:
    cache = MemoryResultCache({"*": 10}, FixedClock())
    await cache.put(["a"], None, {}, {"list": [1]})
    result = cast("dict[str, list[int]]", (await cache.find(["a"], None, {}))[1])
    result["list"].append(2)
    assert await cache.find(["a"], None, {}) == (True, {"list": [1]})
    assert await cache.find(["a"], {"api_key": "other"}, {}) == (False, None)  # nor between credentials


async def test_keys_are_hashed_with_a_secret_of_the_process() -> None:
    keys: list[list[bytes]] = []
    for _ in range(2):
        cache: Any = MemoryResultCache({"*": 10}, FixedClock())
        await cache.put(["a"], {"api_key": "secret"}, {}, "x")
        keys.append(list(cache._results._values))
    assert [len(each) for each in keys] == [1, 1]
    assert keys[0] != keys[1]
