"""PubMed: search biomedical literature."""

from __future__ import annotations

from typing import Any, cast

from pydantic import Field

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.extras import require
from ragflow_lg.base.foreign_markup import parse_xml
from ragflow_lg.component.service_client import Service, open_service, read_label, read_text
from ragflow_lg.component.spec import ComponentParams, ToolResult, ToolService
from ragflow_lg.component.tool import Query, RunContext, build_search_result, query_argument, tool
from ragflow_lg.services.http import HttpRequest

SERVICE = ToolService("PubMed", "pubmed", "https://eutils.ncbi.nlm.nih.gov/entrez/eutils", "optional")
MAX_ARTICLES = 200
MAX_AUTHORS = 200
"""Authors per article; some articles have thousands."""


class Params(ComponentParams):
    """Parameters of PubMed."""

    top_n: int = Field(12, gt=0, strict=True)
    """Number of articles, at most 200."""
    email: str = ""
    """Your e-mail address, as NCBI asks of everyone who uses its services."""
    api_key: str | None = ""
    """NCBI key; defaults to the key in ``[tools.pubmed]`` in the settings. It raises the limit of 3 requests per
    second to 10."""


@tool(
    "PubMed",
    function="pubmed_search",
    params=Params,
    arguments=query_argument("Search keywords. PubMed's field tags such as [Author] are supported."),
    effects="reads",
    description="Search biomedical literature on PubMed. Returns titles, URLs, authors, journals and abstracts.",
    source="agent/tools/pubmed.py",
    service=SERVICE,
)
async def pubmed(ctx: RunContext, params: Params, arguments: Query) -> ToolResult:
    """Search for ids, then read the articles. If there are no ids, nothing more is requested."""
    require("html", "PubMed")
    service = open_service(ctx, SERVICE, params.api_key, error_field="error")
    common = {"db": "pubmed", "tool": "ragflow-lg"}
    common |= {"email": params.email} if params.email else {}
    common |= {"api_key": service.secret} if service.secret else {}
    count = min(params.top_n, MAX_ARTICLES)
    query = {**common, "term": arguments.query, "retmax": str(count), "retmode": "json"}
    request = HttpRequest("GET", f"{service.address}/esearch.fcgi", query=query, timeout_s=12.0)
    ids = _ids(service, await service.ask_json(ctx, request))[:count]
    if not ids:
        return build_search_result([], _row)
    query = {**common, "id": ",".join(ids), "retmode": "xml"}
    response = await service.ask(ctx, HttpRequest("GET", f"{service.address}/efetch.fcgi", query=query, timeout_s=12.0))
    articles = _articles(response.text, count)
    rows = service.rows({"articles": articles}, "articles")
    return build_search_result(rows, _row)


def _ids(service: Service, answer: dict[str, Any]) -> list[str]:
    """Return the ids that a search found."""
    result: Any = answer.get("esearchresult")
    if not isinstance(result, dict):
        raise ServiceError(service.error_of(answer) or "PubMed answered without 'esearchresult'.")
    found = cast("dict[str, Any]", result)
    if message := read_text(found, "ERROR"):
        raise ServiceError(f"PubMed rejected the search: {service.redact(message)[:200]}")
    ids: Any = found.get("idlist") or []
    if not isinstance(ids, list) or not all(_is_id(id_) for id_ in cast("list[Any]", ids)):
        raise ServiceError("PubMed answered with an 'idlist' that is not a list of numbers.")
    return cast("list[str]", ids)


def _is_id(value: Any) -> bool:
    return isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= 20


def _articles(text: str, count: int) -> list[dict[str, Any]]:
    """Parse articles."""
    try:
        root = parse_xml(text, "PubmedArticleSet")
    except ValueError as error:
        raise ServiceError(f"PubMed answered with {error}.") from None
    return [_article(element) for element in root.findall("PubmedArticle")[:count]]


def _article(element: Any) -> dict[str, Any]:
    article = "MedlineCitation/Article/"
    authors = element.findall(f"{article}AuthorList/Author")[:MAX_AUTHORS]
    names = [f"{_text(author, 'ForeName')} {_text(author, 'LastName')}".strip() for author in authors]
    dois = [
        id_.text or "" for id_ in element.findall("PubmedData/ArticleIdList/ArticleId") if id_.get("IdType") == "doi"
    ]
    return {
        "pmid": _text(element, "MedlineCitation/PMID"),
        "title": _text(element, f"{article}ArticleTitle"),
        "authors": [name for name in names if name],
        "journal": _text(element, f"{article}Journal/Title"),
        "volume": _text(element, f"{article}Journal/JournalIssue/Volume"),
        "issue": _text(element, f"{article}Journal/JournalIssue/Issue"),
        "pages": _text(element, f"{article}Pagination/MedlinePgn"),
        "doi": dois[0].strip() if dois else "",
        "abstract": "\n".join(_section(part) for part in element.findall(f"{article}Abstract/AbstractText")),
    }


def _section(part: Any) -> str:
    label = part.get("Label") or ""
    return f"{label}: {_inner_text(part)}" if label else _inner_text(part)


def _text(element: Any, path: str) -> str:
    child = element.find(path)
    return "" if child is None else _inner_text(child)


def _inner_text(element: Any) -> str:
    """Return the text of an element, whose parts may be bold, italic, raised or lowered."""
    return " ".join("".join(element.itertext()).split())


def _row(row: dict[str, Any]) -> tuple[str, str, str, float]:
    title = read_label(row, "title")
    authors = ", ".join(cast("list[str]", row.get("authors") or [])) or "Unknown Authors"
    lines = [
        f"Title: {title or 'No title'}",
        f"Authors: {authors}",
        f"Journal: {read_text(row, 'journal') or 'Unknown Journal'}",
        f"Volume: {read_text(row, 'volume') or '-'}",
        f"Issue: {read_text(row, 'issue') or '-'}",
        f"Pages: {read_text(row, 'pages') or '-'}",
        f"DOI: {read_text(row, 'doi') or '-'}",
        f"Abstract: {read_text(row, 'abstract') or 'No abstract available'}",
    ]
    return title, f"https://pubmed.ncbi.nlm.nih.gov/{read_label(row, 'pmid')}", "\n".join(lines), 1.0
