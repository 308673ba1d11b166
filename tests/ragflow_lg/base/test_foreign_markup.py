import time

import pytest

from ragflow_lg.base.foreign_markup import MAX_HTML_CHARS, MAX_XML_CHARS, html_to_text, parse_xml, read_html_records
from tests.harness.rows import each_row, read_rows


@each_row(("page", "text"), read_rows("text_of_pages"))
def test_pages_become_lines(page: str, text: str) -> None:
    assert html_to_text(page) == text


@each_row(
    "page",
    [
        "<div>" * 40_000 + "x",
        "".join(f"<font size={n}><table>" for n in range(8_000)),
        "".join(f"<b a={n}>" for n in range(20_000)) + "<p>x" * 20_000,
        "<p " + " ".join(f"a{n}=1" for n in range(20_000)) + ">x",
        *(part * 40_000 for part in ("<!--", "<!", "<", "&#", "<svg>")),
    ],
)
def test_hostile_pages_take_linear_time(page: str) -> None:
    began = time.process_time()
    html_to_text(page)
    assert time.process_time() - began < 4


def test_a_page_that_is_too_long_is_rejected() -> None:
    with pytest.raises(ValueError, match="at most"):
        html_to_text("x" * (MAX_HTML_CHARS + 1))


FIELDS = {"t": "title", "s": "summary"}


def test_records_begin_at_their_class() -> None:
    page = """<p class="s">before</p><div class="r x"><h3 class="t">A <b>b</b> <a href="/1">c</a></h3><i class="s">d</i>
    <a href="/2">e</a></div><div class="r"><p class="t">f</p></div>"""
    records, classes = read_html_records(page, "r", FIELDS)
    assert records == [{"href": "/1", "title": "A b c", "summary": "d"}, {"href": "", "title": "f", "summary": ""}]
    assert classes == {"r", "x", "t", "s"}


@each_row("part", ["<a class=r>", "<p class=t>", "<table><font>", '<i class="a b c">', "</p>", "&#9999999;"])
def test_records_of_any_page_take_linear_time(part: str) -> None:
    start_s = time.process_time()
    read_html_records(part * (200_000 // len(part)), "r", FIELDS)
    assert time.process_time() - start_s < 2


BOMB = (
    "<!DOCTYPE a ["
    + "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10 if n else "x"}">' for n in range(9))
    + "]><a>&e8;</a>"
)


def test_the_root_of_an_xml_text_is_returned() -> None:
    assert (
        parse_xml('<!DOCTYPE a PUBLIC "-//X//EN" "http://127.0.0.1:9/x.dtd"><a><b>t</b></a>', "a").findtext("b") == "t"
    )


@each_row(
    ("text", "says"),
    [
        ("", "invalid XML"),
        ("<a>", "invalid XML"),
        ("<b/>", "unexpected XML document"),
        (BOMB, "(invalid|unexpected) XML"),
        ('<!DOCTYPE a [<!ENTITY f SYSTEM "file:///etc/passwd">]><a>&f;</a>', "unexpected XML document"),
        ("<a>" * 5000 + "</a>" * 5000, "invalid XML"),
        ("x" * (MAX_XML_CHARS + 1), "the limit is"),
    ],
)
def test_other_xml_texts_are_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_xml(text, "a")
