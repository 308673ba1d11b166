from ragflow_lg.dsl_compiler.shapes import as_list, as_map, as_text, as_texts


def test_each_gives_an_empty_value_for_the_wrong_type() -> None:
    for junk in (None, 1, True, object()):
        assert (as_map(junk), as_list(junk), as_text(junk), as_texts(junk)) == ({}, [], "", ())


def test_texts_are_unique_and_in_order() -> None:
    assert as_texts(["b", "a", "b", "", 3]) == ("b", "a")
    assert as_texts("x") == ("x",)
