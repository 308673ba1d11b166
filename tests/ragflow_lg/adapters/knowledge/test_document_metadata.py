from typing import Any

import pytest

from ragflow_lg.adapters.knowledge.document_metadata import read_sidecar, split_front_matter
from ragflow_lg.base.errors import ServiceError


@pytest.mark.parametrize(
    ("text", "metadata", "lines"),
    [
        (
            "---\nyear: 2026\nprice: 1.5\nok: true\nn: 'A: b'\n---\nText",
            {"year": 2026, "price": 1.5, "ok": True, "n": "A: b"},
            6,
        ),
        ("---\ntags:\n  - a\n  - 2\n\n# note\nnone: null\n---\n", {"tags": ["a", 2]}, 8),
        ("---\r\na: 1\r\n---\r\n", {"a": 1}, 3),
        ("---\na: 1\nno end", {}, 0),
        ("---\n{ strange\n---\n", {}, 0),
        ("Text\n---\na: 1\n---\n", {}, 0),
        ("", {}, 0),
        (f"---\na: {'[' * 5000}{']' * 5000}\n---\n", {"a": ["[" * 4999 + "]" * 4999]}, 3),
    ],
    ids=["values", "lists", "windows", "no end", "no entry", "not at the beginning", "empty", "nested deeply"],
)
def test_front_matter_is_parsed(text: str, metadata: dict[str, Any], lines: int) -> None:
    assert split_front_matter(text) == (metadata, lines)


def test_a_metadata_file_is_parsed() -> None:
    assert read_sidecar(b'{"a": "b", "n": [1, true], "none": null}') == {"a": "b", "n": [1, True]}
    for wrong in (b"[1]", b"{", b"\xff", b'{"a": {}}', b'{"a": [[1]]}', b"[" * 100_000):
        with pytest.raises(ServiceError, match=r"meta\.json"):
            read_sidecar(wrong)
