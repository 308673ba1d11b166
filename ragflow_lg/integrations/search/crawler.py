"""Crawler: read one web page."""

from __future__ import annotations

import importlib
from functools import partial
from typing import Any, Literal, TypeAlias
from urllib.parse import urljoin, urlsplit, urlunsplit
from urllib.robotparser import RobotFileParser

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.extras import require
from ragflow_lg.base.foreign_markup import check_length
from ragflow_lg.base.worker_tasks import worker_task
from ragflow_lg.component.service_client import Service
from ragflow_lg.component.spec import ComponentParams, ToolExample, ToolResult
from ragflow_lg.component.tool import Query, RunContext, TextOutputs, build_text_result, query_argument, tool
from ragflow_lg.services.http import HttpRequest, HttpResponse

PAGE = Service("The page")
USER_AGENT = "ragflow-lg"
REQUEST_S = 60.0
ROBOTS_REDIRECTS = 5
"""How many redirects of a robots.txt are followed."""
MAX_HOPS = 5
"""Maximum number of addresses, redirects included."""
MAX_ROBOTS_CHARS = 512 * 1024
"""RFC 9309 asks clients to read at least 500 KiB."""
MIN_TEXT_CHARS = 40
"""A page with scripts and less text than this is built by them."""

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_PAGES = ("text/html", "application/xhtml+xml")
_TEXTS = ("text/", "application/json", "application/xml")


_HIDDEN = ("iframe", "noscript", "script", "svg", "template", "title")
_KEPT = frozenset({"href", "src", "alt", "colspan", "rowspan"})

PageFormat: TypeAlias = Literal["markdown", "html", "content"]


class Params(ComponentParams):
    """Parameters of Crawler."""

    extract_type: PageFormat = "markdown"
    """The page as Markdown, as HTML without scripts and styles, or its main text."""
    proxy: str | None = None
    """Address of an HTTP proxy."""


@tool(
    "Crawler",
    function="web_crawler",
    params=Params,
    arguments=query_argument("The complete URL of the page, with http:// or https://."),
    outputs=TextOutputs,
    label="Crawler",
    timeout_s=600.0,
    effects="reads",
    description="Read a web page by its URL. Returns its text as Markdown.",
    source="agent/tools/crawler.py",
    example=ToolExample("[crawler] obey_robots; no key is needed"),
)
async def crawler(ctx: RunContext, params: Params, arguments: Query) -> ToolResult:
    """Read the page without running its scripts."""
    require("crawler", "Crawler")
    response = await _read(ctx, params, arguments.query.strip())
    kind = response.headers.get("content-type", "text/html").partition(";")[0].strip().lower()
    if kind.startswith(_TEXTS) and kind not in _PAGES:
        return build_text_result(response.text)
    if kind not in _PAGES:
        raise ServiceError(f"The address leads to {kind[:80]!r}, which is not a web page.")
    return build_text_result(
        await ctx.services.workers.run(convert_page, response.text, response.url, params.extract_type)
    )


@worker_task("Converting the page", seconds=20.0, small_size=4_096)
def convert_page(page: str, url: str, to: PageFormat) -> str:
    """Return a page as Markdown, as HTML without scripts and styles, or its main text. Nothing is downloaded.

    Raises:
        ServiceError: if the page is too long, nested too deeply, or has no text of its own.
    """
    try:
        check_length(page)
        clean = _clean(page, url)
        visible = _markdown(clean)
    except ValueError as error:
        raise ServiceError(f"The address leads to {error}.") from None
    except RecursionError:
        raise ServiceError("The elements of the page are nested too deeply.") from None
    if len(visible) < MIN_TEXT_CHARS and "<script" in page.lower():
        raise ServiceError(
            "The page has hardly any text of its own; its scripts build it in a browser. The component Browser can "
            "run them."
        )
    if to == "content":
        trafilatura: Any = importlib.import_module("trafilatura")  # slow to import and partly typed
        return trafilatura.extract(page, url=url, output_format="markdown", include_comments=False) or visible
    return clean if to == "html" else visible


def _clean(page: str, url: str) -> str:
    """Return the body with the tags that carry meaning, without most attributes, and with absolute links."""
    library: Any = importlib.import_module("lxml.html")
    cleaner: Any = importlib.import_module("lxml_html_clean").Cleaner(
        style=True, javascript=False, forms=False, kill_tags=_HIDDEN, safe_attrs=_KEPT, remove_unknown_tags=False
    )
    parser = library.HTMLParser(encoding="utf-8")
    tree = library.document_fromstring(b"<body>" + page.encode("utf-8", "replace"), parser=parser)
    if "Excessive depth" in str(parser.error_log):
        raise RecursionError
    cleaner(tree)
    tree.rewrite_links(partial(_absolute, url), resolve_base_href=False)
    body = tree.find("body")
    content = library.tostring(tree if body is None else body, encoding="unicode")
    return "\n".join(line for line in content.splitlines() if line.strip())


def _absolute(url: str, link: str) -> str | None:
    """Return a link to the web, or None for any other, whose attribute goes."""
    try:
        target = urljoin(url, link.strip())
    except ValueError:
        return None
    return target.replace(" ", "%20") if target.startswith(("http://", "https://", "mailto:")) else None


def _markdown(page: str) -> str:
    soup: Any = importlib.import_module("bs4").BeautifulSoup(page, "lxml")
    options = {"escape_misc": False, "escape_asterisks": False, "escape_underscores": False}
    library: Any = importlib.import_module("markdownify")
    return library.MarkdownConverter(heading_style="ATX", bullets="-", table_infer_header=True, **options).convert_soup(
        soup
    )


async def _read(ctx: RunContext, params: Params, url: str) -> HttpResponse:
    """Read a page and follow its redirects. Each address is checked, and needs the permission of its robots.txt."""
    rules = ctx.services.tools.crawler
    allowed: dict[str, RobotFileParser] = {}
    for _ in range(MAX_HOPS):
        parts = _split(url)
        origin = urlunsplit((parts[0], parts[1], "", "", ""))
        host = parts[1].rpartition("@")[2]  # what comes before is an account, which nobody shall read
        if rules.obeys_robots:
            if origin not in allowed:
                allowed[origin] = await _robots(ctx, params, origin)
            if not allowed[origin].can_fetch(USER_AGENT, url):
                raise ServiceError(
                    f"The robots.txt of {host[:200]!r} does not allow programs to read this page ([crawler] "
                    "obey_robots)."
                )
        response = await _get(ctx, params, url, rules.max_page_bytes)
        target = _target(response)
        if not target:
            if not 200 <= response.status < 300:
                raise PAGE.error(response)
            return response._replace(url=urlunsplit(urlsplit(url)._replace(netloc=host)))
        url = _join(url, target)
    raise ServiceError(f"The page redirects more than {MAX_HOPS - 1} times.")


async def _get(ctx: RunContext, params: Params, url: str, max_bytes: int) -> HttpResponse:
    headers = {"User-Agent": USER_AGENT, "Accept": "text/html,application/xhtml+xml,*/*;q=0.5"}
    request = HttpRequest(
        "GET", url, headers, proxy=params.proxy or "", timeout_s=REQUEST_S, max_response_bytes=max_bytes
    )
    return await ctx.services.http.send(request)


async def _robots(ctx: RunContext, params: Params, origin: str) -> RobotFileParser:
    """Return the rules of a site: none if it has no robots.txt, and everything is forbidden if it is unavailable."""
    robots = RobotFileParser()
    response = await _get_robots(ctx, params, f"{origin}/robots.txt")
    if response.status >= 500:
        raise ServiceError(
            f"The robots.txt of the site is unavailable: it answered {response.status}.", is_retryable=True
        )
    lines = response.text[:MAX_ROBOTS_CHARS].splitlines() if response.status == 200 else []
    robots.parse(lines)
    return robots


async def _get_robots(ctx: RunContext, params: Params, url: str) -> HttpResponse:
    """Return the rules of a site, or the last of too many redirects, which stands for no rules. Source: RFC 9309."""
    response = await _get(ctx, params, url, MAX_ROBOTS_CHARS)
    for _ in range(ROBOTS_REDIRECTS):
        target = _target(response)
        if not target:
            break
        url = _join(url, target)
        _split(url)
        response = await _get(ctx, params, url, MAX_ROBOTS_CHARS)
    return response


def _target(response: HttpResponse) -> str:
    """Return where a redirect leads; ``""`` for other responses."""
    return response.headers.get("location", "") if response.status in _REDIRECTS else ""


def _split(url: str) -> tuple[str, str]:
    """Return the scheme and the network location of an address."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ServiceError("URL not valid: it must be complete and begin with http:// or https://.")
    return parts.scheme, parts.netloc


def _join(url: str, target: str) -> str:
    try:
        return urljoin(url, target)
    except ValueError:
        raise ServiceError("The page redirects to an invalid address.") from None
