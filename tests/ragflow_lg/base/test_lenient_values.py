from ragflow_lg.base.lenient_values import as_items, as_list, as_map, as_text, as_texts


def test_each_returns_an_empty_value_for_the_wrong_type() -> None:
    for junk in (None, 1, True, object()):
        assert (as_map(junk), as_list(junk), as_text(junk), as_texts(junk)) == ({}, [], "", ())


def test_strings_are_unique_and_in_order() -> None:
    assert as_texts(["b", "a", "b", "", 3]) == ("b", "a")
    assert as_texts("x") == ("x",)


def test_a_single_item_becomes_a_list() -> None:
    assert (as_items([1]), as_items("a"), as_items(None)) == ([1], ["a"], [None])
