from __future__ import annotations

from ragflow_lg.adapters.result_cache import OVERHEAD_BYTES, MemoryResultCache
from tests.fakes.services import FixedClock


class Clock(FixedClock):
    def pass_by(self, seconds: float) -> None:
        self._now += seconds


async def test_results_are_kept_for_their_time_and_no_longer() -> None:
    clock = Clock()
    cache = MemoryResultCache({"wiki*": 10, "*": 1}, clock)
    await cache.put(["Wikipedia"], {"n": 1}, {"q": "x"}, {"value": [1, "é"]})
    clock.pass_by(9)
    assert await cache.find(["Wikipedia"], {"n": 1}, {"q": "x"}) == (True, {"value": [1, "é"]})
    for other in (({"n": 2}, {"q": "x"}), ({"n": 1}, {"q": "y"})):
        assert await cache.find(["Wikipedia"], *other) == (False, None)
    assert await cache.find(["Wikipedia2"], {"n": 1}, {"q": "x"}) == (False, None)
    clock.pass_by(1)
    assert await cache.find(["Wikipedia"], {"n": 1}, {"q": "x"}) == (False, None)
    assert cache.size == 0


async def test_what_is_not_named_is_not_kept() -> None:
    cache = MemoryResultCache({"Wikipedia": 10}, FixedClock())
    assert cache.covers(["Wikipedia"])
    assert not cache.covers(["TavilySearch"])
    assert not cache.covers([])
    await cache.put(["TavilySearch"], None, {}, "x")
    assert cache.size == 0


async def test_what_was_not_used_longest_makes_room() -> None:
    cache = MemoryResultCache({"*": 10}, FixedClock(), max_bytes=3 * (OVERHEAD_BYTES + 100))
    for name in ("a", "b", "c"):
        await cache.put([name], None, {}, "x" * 90)
    await cache.find(["a"], None, {})
    await cache.put(["d"], None, {}, "x" * 90)
    assert [(await cache.find([name], None, {}))[0] for name in "abcd"] == [True, False, True, True]
    await cache.put(["a"], None, {}, "x" * 10_000)
    assert (await cache.find(["a"], None, {}))[0] is False
    assert cache.size <= 3 * (OVERHEAD_BYTES + 100)


async def test_a_result_is_the_callers_own() -> None:
    cache = MemoryResultCache({"*": 10}, FixedClock())
    await cache.put(["a"], None, {}, {"list": [1]})
    (await cache.find(["a"], None, {}))[1]["list"].append(2)
    assert await cache.find(["a"], None, {}) == (True, {"list": [1]})


async def test_credentials_do_not_share_and_are_nowhere_in_the_keys() -> None:
    one, other = (MemoryResultCache({"*": 10}, FixedClock()) for _ in range(2))
    for cache in (one, other):
        await cache.put(["a"], {"api_key": "secret"}, {}, "x")
    assert await one.find(["a"], {"api_key": "other"}, {}) == (False, None)
    assert one._entries.keys() != other._entries.keys()
