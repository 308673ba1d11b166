import time
from typing import Any

import pytest

from ragflow_lg.adapters.knowledge import chunking
from ragflow_lg.adapters.knowledge.file_text import read_blocks, read_sidecar, split_front_matter
from ragflow_lg.base.errors import ServiceError
from tests.harness.rows import each_row


def texts(name: str, content: str | bytes) -> list[str]:
    data = content if isinstance(content, bytes) else content.encode()
    return ["#" * block.heading + block.text for block in read_blocks(name, data).blocks if block.text]


@each_row(
    ("name", "content", "expected"),
    [
        ("a.txt", "one\ntwo\n\nthree", ["one\ntwo", "three"]),
        ("a.md", "# Head #\ntext\n```\n# code\n\nmore\n```\nafter", ["#Head", "text\n```\n# code\n\nmore\n```\nafter"]),
        ("a.HTML", "<h2>Head</h2><p>one<p>two<script>x</script>", ["##Head", "one", "two"]),
        ("a.csv", 'name;city\nAda;"Lyon; FR"\n\nBo;\n', ["name: Ada; city: Lyon; FR", "name: Bo"]),
        ("a.csv", "name,city\n", ["name city"]),
        ("a.tsv", "name\tcity\nAda\tLyon\n", ["name: Ada; city: Lyon"]),
        ("a.json", '[{"a": {"b": 1}, "c": ["x", null]}, 2]', ["a.b: 1; c: x", "2"]),
        ("a.json", '{"a": 1, "b": [true]}', ["a: 1", "b: true"]),
        ("a.jsonl", '{"a": 1}\n\n{"a": 2}', ["a: 1", "a: 2"]),
        ("a.txt", "上海办公室的年假制度".encode("gb18030"), ["上海办公室的年假制度"]),
        ("a.txt", "é".encode("utf-16"), ["é"]),
        ("a.txt", b"\xef\xbb\xbfx", ["x"]),
    ],
)
def test_supported_files_become_blocks(name: str, content: str | bytes, expected: list[str]) -> None:
    assert texts(name, content) == expected


@each_row(
    ("name", "content", "problem"),
    [
        ("a.txt", b"a\0b", "binary"),
        ("a.txt", "é \xe9t\xe9 na\xefve".encode("latin-1"), "not UTF-8"),
        ("a.json", b"{", "not JSON"),
        ("a.json", b"[" * 200_000, "nested too deeply"),
        ("a.jsonl", b'{"a": 1}\n{', r"line 2"),
        ("a.exe", b"", r"\.exe are not supported"),
        ("a.csv", b'"' + b"x" * 2_000_000, "not a valid table"),
    ],
)
def test_unreadable_files_are_an_error_with_the_reason(name: str, content: bytes, problem: str) -> None:
    with pytest.raises(ServiceError, match=problem):
        read_blocks(name, content)


@each_row(
    ("name", "content"),
    [
        ("a.md", f"# a{' ' * 20_000}b\ntext"),
        ("a.md", f"# {'#' * 100_000}x\ntext"),
        ("a.html", f"<p># {'#' * 100_000}x<p>text"),
        ("a.csv", f"{'n' * 500_000},b\n" + "x,y\n" * 10_000),
        ("a.csv", "," * 500_000 + "\n" + "x\n" * 10_000),
        ("a.json", f'{{"{"k" * 500_000}": [{"1," * 10_000}1]}}'),
    ],
)
def test_small_files_need_little_time_and_memory(name: str, content: str) -> None:
    start = time.process_time()
    assert sum(map(len, texts(name, content))) < 5_000_000
    assert time.process_time() - start < 5


def test_files_with_too_much_text_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunking, "MAX_BLOCKS", 2)
    monkeypatch.setattr(chunking, "MAX_TEXT_CHARS", 100)
    for name, content in (("a.txt", "a\n\nb\n\nc"), ("a.csv", "h\n1\n2\n3\n"), ("a.json", "[[1, 2, 3]]")):
        with pytest.raises(ServiceError, match="more than 2 paragraphs or rows; split it"):
            texts(name, content)
    with pytest.raises(ServiceError, match="more than 100 characters"):
        texts("a.txt", "a" * 101)


def test_front_matter_is_not_text_but_counts_for_line_numbers() -> None:
    text = read_blocks("a.md", b"---\nyear: 2026\n---\n# Head\n\nText")
    assert text.metadata == {"year": 2026}
    assert [(block.text, block.first_line) for block in text.blocks] == [("Head", 4), ("Text", 6)]


@each_row(
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
)
def test_front_matter_is_parsed(text: str, metadata: dict[str, Any], lines: int) -> None:
    assert split_front_matter(text) == (metadata, lines)


def test_a_metadata_file_is_parsed() -> None:
    assert read_sidecar(b'{"a": "b", "n": [1, true], "none": null}') == {"a": "b", "n": [1, True]}
    for wrong in (b"[1]", b"{", b"\xff", b'{"a": {}}', b'{"a": [[1]]}', b"[" * 100_000):
        with pytest.raises(ServiceError, match=r"meta\.json"):
            read_sidecar(wrong)
