from typing import Any

from ragflow_lg.models.metadata_filter import FILTER_OPERATORS, FilterCondition, filter_documents, metadata_operator
from tests.harness.rows import each_row

METADATA = {
    "year": {"2023": ["a"], "2024": ["b", "c"], "soon": ["d"]},
    "crop": {"Rice": ["a"], "Tea": ["b"], "": ["c"]},
    "day": {"2024-01-31": ["a"], "2024-02-01": ["b"], "today": ["c"]},
    "tags": {"x": ["a", "b"], "y": ["b"]},
    "n": {"9": ["a"], "10": ["b"], "10.0": ["c"], "'10'": ["d"]},
}


@each_row(
    ("key", "operator", "value", "expected"),
    [
        ("year", "=", "2024", "bc"), ("year", "≠", "2024", "ad"), ("year", ">", "2023", "bcd"),
        ("year", "<", "2024", "a"), ("year", "≥", "2023", "abcd"), ("year", "≤", "2023", "a"), ("n", ">", "9", "bc"),
        ("n", "=", "10", "bc"), ("crop", "=", "rice", "a"), ("crop", ">", "rice", "b"),
        ("day", "<", "2024-02-01", "a"), ("day", "≥", "2024-01-31", "ab"), ("day", "≠", "2024-02-01", "a"),
        ("day", "=", "2024", ""), ("crop", "in", "rice, corn", "ac"), ("crop", "in", ["TEA", "corn"], "b"),
        ("crop", "not in", ["TEA", "corn"], "ac"), ("crop", "contains", "IC", "a"),
        ("crop", "not contains", "ic", "bc"), ("crop", "start with", "te", "b"), ("crop", "end with", "CE", "a"),
        ("crop", "empty", "", "c"), ("crop", "not empty", "", "ab"), ("tags", "≠", "x", "b"),
        ("nothing", "≠", "x", ""), ("nothing", "empty", "", ""), ("year", ">", None, ""),
        ("year", ">", {"$gt": 1}, ""), ("year", "=", "[" * 10_000, ""), ("year", "<", "9" * 199, "abc"),
        ("year", "=", "__import__('os')", ""),
    ],
)  # fmt: skip
def test_operators_filter_documents(key: str, operator: str, value: Any, expected: str) -> None:
    assert filter_documents(METADATA, [FilterCondition(key, operator, value)]) == tuple(expected)


def test_conditions_are_combined() -> None:
    both = [FilterCondition("tags", "=", "x"), FilterCondition("year", "=", "2024")]
    assert filter_documents(METADATA, both) == ("b",)
    assert filter_documents(METADATA, both, any_of=True) == ("a", "b", "c")
    assert filter_documents(METADATA, [*both, FilterCondition("nothing", "=", "1")]) == ()
    assert filter_documents(METADATA, []) == ()


def test_spellings_of_operators() -> None:
    spellings = ("is", "==", "is not", "!=", "<>", ">=", "<=", "NOT IN", "Starts with", "ends  with", "like", "")
    expected = ["=", "=", "≠", "≠", "≠", "≥", "≤", "not in", "start with", "end with", None, None]
    assert [metadata_operator(text) for text in spellings] == expected
    assert [metadata_operator(text) for text in FILTER_OPERATORS] == list(FILTER_OPERATORS)
