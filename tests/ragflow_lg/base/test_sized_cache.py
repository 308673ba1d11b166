from ragflow_lg.base.sized_cache import SizedCache


def test_what_was_used_least_recently_is_removed_until_the_others_fit() -> None:
    cache = SizedCache[str, int](10)
    cache.put("first", 1, 4)
    cache.put("second", 2, 4)
    assert cache.get("first") == 1
    cache.put("third", 3, 4)

    assert [cache.get(key) for key in ("first", "second", "third")] == [1, None, 3]


def test_one_large_value_stays_alone_until_there_is_another_one() -> None:
    cache = SizedCache[str, int](10)
    cache.put("small", 1, 2)
    cache.put("large", 2, 20)
    assert [cache.get(key) for key in ("small", "large")] == [None, 2]

    cache.put("next", 3, 2)
    assert [cache.get(key) for key in ("large", "next")] == [None, 3]


def test_a_new_value_of_a_key_replaces_the_size_of_the_old_one() -> None:
    cache = SizedCache[str, int](10)
    cache.put("other", 1, 4)
    for number in range(10):
        cache.put("key", number, 6)

    assert [cache.get(key) for key in ("other", "key")] == [1, 9]
