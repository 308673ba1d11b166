from typing import Any

from ragflow_lg.base.foreign_markup import MAX_XML_CHARS
from ragflow_lg.integrations.search.arxiv import arxiv
from ragflow_lg.services.http import HttpResponse
from tests.fakes.run import Result
from tests.fakes.services import ScriptedHttp
from tests.fakes.tools import run_search
from tests.harness.rows import each_row

ENTRY = """
  <entry>
    <id>http://arxiv.org/abs/2101.00001v2</id>
    <title>Rivers
      of Laos</title>
    <summary>  How the Mekong &amp; its arms flow.
</summary>
    <author><name>A. Phet</name></author><author><name>B. Kham</name></author>
    <link href="http://arxiv.org/abs/2101.00001v2" rel="alternate" type="text/html"/>
    <link title="pdf" href="http://arxiv.org/pdf/2101.00001v2" rel="related" type="application/pdf"/>
  </entry>"""
BARE = "<entry><id>http://arxiv.org/abs/1</id><title>Bare</title><summary>Nothing else.</summary></entry>"
EMPTY = "<entry><id>http://arxiv.org/abs/2</id><title>No abstract</title></entry>"


def feed(*entries: str, head: str = '<?xml version="1.0" encoding="UTF-8"?>') -> str:
    return f'{head}<feed xmlns="http://www.w3.org/2005/Atom"><title>q</title>{"".join(entries)}</feed>'


async def search(params: dict[str, Any], body: str, status: int = 200, **more: Any) -> tuple[Result, ScriptedHttp]:
    answers = {"http://t/api/query": HttpResponse(status, {}, body, "")}
    return await run_search(arxiv, params, answers, service="arxiv", **more)


async def test_papers_as_text_and_as_rows() -> None:
    result, http = await search({"sort_by": "relevance"}, feed(ENTRY, BARE, EMPTY))
    text = result.outputs["formalized_content"]
    assert "├── Title: Rivers of Laos\n" in text
    assert "└── Content:\nHow the Mekong & its arms flow.\n" in text
    assert "No abstract" not in text
    assert result.outputs["json"][0] == {
        "title": "Rivers of Laos",
        "authors": ["A. Phet", "B. Kham"],
        "summary": "How the Mekong & its arms flow.",
        "pdf_url": "http://arxiv.org/pdf/2101.00001v2",
        "entry_id": "http://arxiv.org/abs/2101.00001v2",
    }
    assert result.outputs["json"][1]["pdf_url"] == "http://arxiv.org/pdf/1"
    assert (http.requests[0].query["max_results"], http.requests[0].query["sortBy"]) == ("12", "relevance")


async def test_an_error_entry_is_an_error() -> None:
    entry = "<entry><id>http://arxiv.org/api/errors#x</id><title>Error</title><summary>bad sort</summary></entry>"
    result, _ = await search({}, feed(entry))
    assert result.error == "arXiv rejected the search: bad sort"
    result, _ = await search({}, feed(entry), status=400)
    assert "arXiv answered 400" in str(result.error)


BOMB = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
HOSTILE = [
    ("", "invalid XML"),
    ("{}", "invalid XML"),
    ("<html><body>busy</body></html>", "an unexpected XML document"),
    ("<feed/>", "an unexpected XML document"),
    (feed(ENTRY)[:-20], "invalid XML"),
    (feed(ENTRY).replace("Phet", "\x00"), "invalid XML"),
    (feed(ENTRY, head='<!DOCTYPE feed [<!ENTITY a "b">]>'), "an unexpected XML document"),
    (feed(BARE.replace("Bare", "&e9;"), head=f'<!DOCTYPE feed [<!ENTITY e0 "x">{BOMB}]>'), ""),
    (feed(BARE.replace("Bare", "&x;"), head='<!DOCTYPE feed [<!ENTITY x SYSTEM "file:///etc/passwd">]>'), ""),
    (feed("<a>" * 5000 + "</a>" * 5000), "invalid XML"),
    (feed("x" * (MAX_XML_CHARS + 1)), "the limit is"),
]


@each_row(("body", "says"), HOSTILE)
async def test_an_invalid_feed_is_an_error(body: str, says: str) -> None:
    result, _ = await search({}, body)
    assert str(result.error).startswith("arXiv answered with ")
    assert says in str(result.error)
    assert "root:" not in str(result.error)


async def test_lone_surrogates_and_declared_encodings_are_handled() -> None:
    result, _ = await search(
        {}, feed(BARE.replace("Bare", "B\ud800re"), head='<?xml version="1.0" encoding="utf-16"?>')
    )
    assert (result.error, result.outputs["json"][0]["title"]) == (None, "B?re")
