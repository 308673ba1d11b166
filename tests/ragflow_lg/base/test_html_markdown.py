import time
from typing import get_args

import pytest

from ragflow_lg.base.html_markdown import PageFormat, convert_page
from ragflow_lg.base.html_text import MAX_HTML_CHARS
from tests.harness.rows import each_row


@each_row(
    ("page", "text"),
    [
        ("<p>a<p>b", "a\nb"),
        ('<a href="/x y">t</a>', "[t](http://h/x%20y)"),
        ('<a href="javascript:1">t</a>', "t"),
        ('<a href="http://[">t</a>', "t"),
        ('a<a href="/x"></a>b', "ab"),
        ("<h3>a <i>b</i></h3>c", "### a b\nc"),
        ("<ul><li>a<li>b<ol><li>c</ol></ul>", "- a\n- b\n  1. c"),
        ("<table><tr><td>a<p>b</p></td><td>c</td></tr></table>", "| a b | c |\n| --- | --- |"),
        ("<pre>a\n  b\n</pre>", "```\na\n  b\n```"),
        ('<img alt=" x " src="y.png"><img src="z">', "![x](http://h/y.png)"),
        ("<script>a</script><style>b</style><noscript>c</noscript>", ""),
        ("a &lt;b&gt; &amp; c", "a <b> & c"),
        ("</ul></pre></blockquote></main></a></td>x", "x"),
    ],
)
def test_markdown(page: str, text: str) -> None:
    assert convert_page(page, "http://h/p", "markdown") == text


def test_clean_html_has_neither_scripts_nor_handlers() -> None:
    page = '<p onclick="x()" style="y">a<script>z</script><a href="javascript:1" target=_blank>b</a><br>&lt;i&gt;</p>'
    assert convert_page(page, "http://h", "html") == '<body><p>a<a href="">b</a><br>&lt;i&gt;</p></body>'


def test_a_long_page_is_refused() -> None:
    with pytest.raises(ValueError, match="at most"):
        convert_page("x" * (MAX_HTML_CHARS + 1), "http://h", "markdown")


@each_row("to", get_args(PageFormat))
@each_row("part", ["<ul><li>", "<blockquote>", "<a href=/>", "<table><tr><td>", "<pre>", "<font><p>", "</a>"])
def test_any_page_takes_linear_time(part: str, to: PageFormat) -> None:
    start_s = time.process_time()
    text = convert_page(part * (200_000 // len(part)), "http://h", to)
    assert time.process_time() - start_s < 5
    assert len(text) < 20_000_000
