"""Records from pages of results: the texts of elements with certain classes."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from ragflow_lg.base.html_text import MAX_HTML_CHARS

MAX_CLASSES = 10_000


def read_html_records(page: str, begins: str, fields: Mapping[str, str]) -> tuple[list[dict[str, str]], set[str]]:
    """Return the records of a page and the classes that occur in it.

    An element with the class ``begins`` begins a record. ``fields`` maps the classes of elements inside it, or after
    it, to the names of their texts; ``href`` is the first link. The page is read in linear time. This function is
    CPU-bound; call it in a thread.

    Raises:
        ValueError: if the page is longer than `ragflow_lg.base.html_text.MAX_HTML_CHARS`.
    """
    if len(page) > MAX_HTML_CHARS:
        raise ValueError(f"{len(page):,} characters; the limit is {MAX_HTML_CHARS:,}")
    etree: Any = importlib.import_module("lxml.etree")  # slow to import and untyped
    reader = _Reader(begins, fields)
    parser = etree.HTMLParser(target=reader, encoding="utf-8", huge_tree=True)
    parser.feed(b"<body>" + page.encode("utf-8", "replace"))
    parser.close()
    return reader.records, reader.classes


class _Reader:
    """Collects records from lxml's parser events."""

    def __init__(self, begins: str, fields: Mapping[str, str]) -> None:
        self.records: list[dict[str, str]] = []
        self.classes: set[str] = set()
        self._begins = begins
        self._fields = fields
        self._field = ""
        self._depth = 0
        self._parts: list[str] = []

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        classes = attributes.get("class", "").split()
        if not self._field and self._begins in classes:
            self.records.append({"href": "", **dict.fromkeys(self._fields.values(), "")})
        if self.records and tag == "a" and not self.records[-1]["href"]:
            self.records[-1]["href"] = attributes.get("href", "")
        if self._field:
            self._depth += 1
            return
        if len(self.classes) < MAX_CLASSES:
            self.classes.update(classes)
        if self.records:
            self._field = next((self._fields[name] for name in classes if name in self._fields), "")

    def end(self, tag: str) -> None:
        if not self._field:
            return
        if self._depth:
            self._depth -= 1
            return
        self.records[-1][self._field] = " ".join("".join(self._parts).split())
        self._field = ""
        self._parts.clear()

    def data(self, text: str) -> None:
        if self._field:
            self._parts.append(text)

    def comment(self, text: str) -> None:
        """Ignore comments."""

    def close(self) -> None:
        """Do nothing; records are read from the attributes."""
