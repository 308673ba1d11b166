import time

import pytest

from ragflow_lg.base.html_text import MAX_HTML_CHARS, read_html_records
from tests.harness.rows import each_row

FIELDS = {"t": "title", "s": "summary"}


def test_records_begin_at_their_class() -> None:
    page = """<p class="s">before</p><div class="r x"><h3 class="t">A <b>b</b> <a href="/1">c</a></h3><i class="s">d</i>
    <a href="/2">e</a></div><div class="r"><p class="t">f</p></div>"""
    records, classes = read_html_records(page, "r", FIELDS)
    assert records == [{"href": "/1", "title": "A b c", "summary": "d"}, {"href": "", "title": "f", "summary": ""}]
    assert classes == {"r", "x", "t", "s"}


def test_a_long_page_is_refused() -> None:
    with pytest.raises(ValueError, match="the limit is"):
        read_html_records("x" * (MAX_HTML_CHARS + 1), "r", FIELDS)


@each_row("part", ["<a class=r>", "<p class=t>", "<table><font>", '<i class="a b c">', "</p>", "&#9999999;"])
def test_any_page_takes_linear_time(part: str) -> None:
    start_s = time.process_time()
    read_html_records(part * (500_000 // len(part)), "r", FIELDS)
    assert time.process_time() - start_s < 5
