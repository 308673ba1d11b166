from typing import Any

from ragflow_lg.models.metadata_filter import FILTER_OPERATORS, FilterCondition, filter_documents, metadata_operator
from tests.harness.rows import each_row, read_rows

METADATA = {
    "year": {"2023": ["a"], "2024": ["b", "c"], "soon": ["d"]},
    "crop": {"Rice": ["a"], "Tea": ["b"], "": ["c"]},
    "day": {"2024-01-31": ["a"], "2024-02-01": ["b"], "today": ["c"]},
    "tags": {"x": ["a", "b"], "y": ["b"]},
    "n": {"9": ["a"], "10": ["b"], "10.0": ["c"], "'10'": ["d"]},
}


@each_row(
    ("key", "operator", "value", "expected"),
    [*read_rows("metadata_operators"), ("year", "=", "[" * 10_000, ""), ("year", "<", "9" * 199, "abc")],
)
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
