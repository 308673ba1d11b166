"""Services that search with one request and answer in JSON: a row each.

A row says what is requested, where the results are in the answer, and what their fields are called.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, cast

from pydantic import BaseModel, BeforeValidator, Field, field_validator

from ragflow_lg.base.errors import ComponentError, ServiceError
from ragflow_lg.base.values import JsonValue, to_json
from ragflow_lg.component.service_client import MAX_LABEL_CHARS, MAX_ROWS, Service, open_service, read_number, read_text
from ragflow_lg.component.spec import (
    AnySpec,
    ArgumentOrValue,
    ComponentParams,
    OneOrMany,
    Requirement,
    ToolResult,
    ToolService,
)
from ragflow_lg.component.tool import (
    NOTHING_FOUND,
    Query,
    QueryText,
    RunContext,
    build_search_result,
    query_argument,
    tool,
)
from ragflow_lg.services.http import HttpRequest

P = TypeVar("P", bound=ComponentParams)
A = TypeVar("A", bound=BaseModel)
Row: TypeAlias = Mapping[str, Any]

MAX_PAGE = 100
"""The maximum number of results of GitHub and SerpApi."""
REQUEST_S = 12.0


def search(
    name: str,
    *,
    service: ToolService,
    params: type[P],
    arguments: type[A],
    request: Callable[[Service, P, A], HttpRequest],
    results: str | Callable[[Service, Row], list[dict[str, Any]]] = "results",
    fields: tuple[str, str, str | Callable[[Row], str]] = ("title", "url", "content"),
    score: str = "",
    count: Callable[[P, A], int] = lambda params, arguments: MAX_ROWS,
    error_field: str = "",
    service_for: Callable[[P], ToolService] | None = None,
    is_whole: bool = False,
    **options: Any,
) -> AnySpec:
    """Return a tool that searches with one ``request``.

    ``results`` is the field of the answer with the list of results. ``fields`` are those of a result with its title,
    URL and content: ``|`` separates alternatives, a dot the parts of a path. ``count`` limits the results,
    ``error_field`` is where the service describes its errors. ``service_for`` replaces ``service`` for some params. The
    output ``json`` has the results or, if it ``is_whole``, the answer. ``options`` are those of
    `ragflow_lg.component.tool.tool`.
    """

    def about(node_params: P) -> ToolService:
        return service_for(node_params) if service_for else service

    def read_row(row: Row) -> tuple[str, str, str, float]:
        title, url, content = (names(row) if callable(names) else _read(row, names) for names in fields)
        return title[:MAX_LABEL_CHARS], url[:MAX_LABEL_CHARS], content, read_number(row.get(score), 1.0)

    def required_key(node_params: P) -> Sequence[Requirement]:
        return about(node_params).required_key(getattr(node_params, service.key_param, ""))

    async def call(ctx: RunContext, node_params: P, values: A) -> ToolResult:
        """Search once."""
        client = open_service(ctx, about(node_params), getattr(node_params, service.key_param, ""), error_field)
        sent = request(client, node_params, values)
        answer = await client.ask_json(ctx, sent)
        limit = count(node_params, values)
        rows = client.rows(answer, results, limit) if isinstance(results, str) else results(client, answer)[:limit]
        found = build_search_result(rows, read_row)
        if not is_whole:
            return found
        try:
            return ToolResult(found.value, {**found.outputs, "json": to_json(answer)}, found.chunks)
        except ComponentError as error:
            raise ServiceError(f"{client.name} answered with an unusable response: {error}") from None

    if service_for is not None:
        options["requires"] = required_key
    return tool(name, params=params, arguments=arguments, service=service, **options)(call)


def _read(row: Row, names: str) -> str:
    return next((text for name in names.split("|") if (text := read_text(row, *name.split(".")))), "")


def _bearer(service: Service) -> dict[str, str]:
    return {"Authorization": f"Bearer {service.secret}"} if service.secret else {}


class KeyParams(ComponentParams):
    """Parameters of a search with a key."""

    api_key: str | None = ""
    """Key of the service; defaults to the key in the settings."""


# Tavily

TAVILY = ToolService("Tavily", "tavily", "https://api.tavily.com", "required")
Topic = Literal["general", "news"]


class TavilyParams(KeyParams):
    """Parameters of TavilySearch."""

    topic: Topic = "general"
    search_depth: Literal["basic", "advanced"] = "basic"
    max_results: int = Field(6, gt=0, strict=True)
    days: int = Field(14, gt=0, strict=True)
    """Maximum age of news."""
    include_answer: bool = False


class TavilyArguments(Query):
    """The search query and its filters."""

    topic: Topic = Field("general", description="'news' for recent events, otherwise 'general'.")
    include_domains: OneOrMany[str] = Field(
        default_factory=list[str], description="Only return results from these domains."
    )
    exclude_domains: OneOrMany[str] = Field(
        default_factory=list[str], description="Exclude results from these domains."
    )


def _ask_tavily(service: Service, params: TavilyParams, arguments: TavilyArguments) -> HttpRequest:
    body: dict[str, JsonValue] = {
        "query": arguments.query,
        "topic": arguments.topic,
        **{name: getattr(params, name) for name in ("search_depth", "max_results", "days", "include_answer")},
        **dict.fromkeys(("include_raw_content", "include_images", "include_image_descriptions"), False),
        "include_domains": [*arguments.include_domains],
        "exclude_domains": [*arguments.exclude_domains],
    }
    return HttpRequest("POST", f"{service.address}/search", _bearer(service), json=body, timeout_s=REQUEST_S)


tavily_search = search(
    "TavilySearch",
    function="tavily_search",
    service=TAVILY,
    params=TavilyParams,
    arguments=TavilyArguments,
    request=_ask_tavily,
    fields=("title", "url", "raw_content|content"),
    score="score",
    count=lambda params, arguments: params.max_results,
    label="Tavily",
    effects="pays",
    description="Search the web by keywords. Returns the title, URL and content of each result.",
    source="agent/tools/tavily.py",
    unused=frozenset(["include_image_descriptions", "include_images", "include_raw_content"]),
)


# Keenable

KEENABLE = ToolService("Keenable", "keenable", "https://api.keenable.ai", "optional")


class KeenableParams(KeyParams):
    """Parameters of KeenableSearch."""

    mode: Literal["pro", "realtime"] = "pro"
    """``realtime`` answers faster and needs a key."""
    top_n: int = Field(10, gt=0, strict=True)


class KeenableArguments(Query):
    """The search query and a site."""

    site: QueryText = Field("", description="Only return results from this domain, such as example.com.")


def _ask_keenable(service: Service, params: KeenableParams, arguments: KeenableArguments) -> HttpRequest:
    """Return the request: with a key, or else to the public endpoint."""
    body: dict[str, JsonValue] = {"query": arguments.query, "mode": params.mode}
    if arguments.site:
        body["site"] = arguments.site
    url = service.address + ("/v1/search" if service.secret else "/v1/search/public")
    headers = {"X-Keenable-Title": "ragflow-lg", **({"X-API-Key": service.secret} if service.secret else {})}
    return HttpRequest("POST", url, headers, json=body, timeout_s=REQUEST_S)


keenable_search = search(
    "KeenableSearch",
    function="keenable_search",
    service=KEENABLE,
    service_for=lambda params: KEENABLE._replace(key="required") if params.mode == "realtime" else KEENABLE,
    params=KeenableParams,
    arguments=KeenableArguments,
    request=_ask_keenable,
    fields=("title", "url", lambda row: " ".join(_read(row, "snippet|description").split())),
    count=lambda params, arguments: params.top_n,
    label="Keenable",
    effects="pays",
    description="Search the web with Keenable by keywords. Returns the title, URL and text of each result.",
    source="agent/tools/keenable.py",
)


# Querit

QUERIT = ToolService("Querit", "querit", "https://api.querit.ai", "required")
TIME_RANGE = r"^(|[dwmy][1-9][0-9]*|\d{4}-\d{2}-\d{2}to\d{4}-\d{2}-\d{2})$"


class QueritArguments(Query):
    """The search query and its filters."""

    count: Annotated[int, BeforeValidator(lambda value: value or 10)] = Field(
        10, gt=0, description="Maximum number of results."
    )
    chunks_per_doc: Annotated[int, BeforeValidator(lambda value: value or 3)] = Field(
        3, ge=1, le=3, description="Number of excerpts per result, from 1 to 3."
    )
    site_include: OneOrMany[str] = Field(default_factory=list[str], description="Only return results from these sites.")
    site_exclude: OneOrMany[str] = Field(default_factory=list[str], description="Exclude results from these sites.")
    time_range: Annotated[str, BeforeValidator(lambda value: value or "")] = Field(
        "", pattern=TIME_RANGE, description="Age of the results, such as d7, w1, m3, y1 or 2025-01-01to2025-02-01."
    )
    country_include: OneOrMany[str] = Field(
        default_factory=list[str], description="Only return results from these countries."
    )
    language_include: OneOrMany[str] = Field(
        default_factory=list[str], description="Only return results in these languages."
    )


def _ask_querit(service: Service, params: KeyParams, arguments: QueritArguments) -> HttpRequest:
    sites: dict[str, JsonValue] = {"include": [*arguments.site_include], "exclude": [*arguments.site_exclude]}
    filters: dict[str, JsonValue] = {"sites": {name: names for name, names in sites.items() if names}}
    if arguments.time_range:
        filters["timeRange"] = {"date": arguments.time_range}
    if arguments.country_include:
        filters["geo"] = {"countries": {"include": [*arguments.country_include]}}
    if arguments.language_include:
        filters["languages"] = {"include": [*arguments.language_include]}
    filters = {name: value for name, value in filters.items() if value}
    body: dict[str, JsonValue] = {
        "query": arguments.query,
        "count": arguments.count,
        "chunksPerDoc": arguments.chunks_per_doc,
        **({"filters": filters} if filters else {}),
    }
    headers = {"Accept": "application/json", **_bearer(service)}
    return HttpRequest("POST", f"{service.address}/v1/search", headers, json=body, timeout_s=REQUEST_S)


def _querit_results(service: Service, answer: Row) -> list[dict[str, Any]]:
    results: Any = answer.get("results") or {}
    if not isinstance(results, dict):
        raise ServiceError(service.error_of(answer) or "Querit answered with 'results' that are not an object.")
    return service.rows({"result": [], **cast("dict[str, Any]", results)}, "result")


querit_search = search(
    "QueritSearch",
    function="querit_search",
    service=QUERIT,
    params=KeyParams,
    arguments=QueritArguments,
    request=_ask_querit,
    results=_querit_results,
    fields=("title", "url", "snippet"),
    error_field="error_msg",
    is_whole=True,
    blank=ToolResult("", {**NOTHING_FOUND.outputs, "json": {}}),
    label="Querit",
    effects="pays",
    description="Search the web with Querit by keywords. Returns the title, URL and excerpts of each result.",
    source="agent/tools/querit.py",
)


# Google

SERPAPI = ToolService("SerpApi", "serpapi", "https://serpapi.com", "required")
DEFAULT_COUNT = 6


class GoogleParams(KeyParams):
    """Parameters of Google."""

    country: str = Field("cn", pattern="^[A-Za-z]{2}$")
    """Two-letter country code, such as us."""
    language: str = Field("en", pattern="^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})?$")
    """Language of the results page, such as en or zh-CN."""
    start: ArgumentOrValue = 0
    num: ArgumentOrValue = DEFAULT_COUNT


class GoogleArguments(BaseModel):
    """The search query and the range of results."""

    q: QueryText = Field("", description="Search keywords. Google search operators are supported.")
    start: Annotated[int, BeforeValidator(lambda value: value or 0)] = Field(
        0, ge=0, le=1000, description="Number of results to skip."
    )
    num: Annotated[int, BeforeValidator(lambda value: DEFAULT_COUNT if value in (None, "") else value)] = Field(
        DEFAULT_COUNT, gt=0, description="Number of results."
    )


def _ask_google(service: Service, params: GoogleParams, arguments: GoogleArguments) -> HttpRequest:
    query = {
        "api_key": service.secret,
        "engine": "google",
        "q": arguments.q,
        "google_domain": "google.com",
        "gl": params.country.lower(),
        "hl": params.language,
        "start": str(arguments.start),
        "num": str(min(arguments.num, MAX_PAGE)),
    }
    return HttpRequest("GET", f"{service.address}/search", query=query, timeout_s=REQUEST_S)


google = search(
    "Google",
    function="google_search",
    service=SERPAPI,
    params=GoogleParams,
    arguments=GoogleArguments,
    request=_ask_google,
    results="organic_results",
    fields=("title", "link", "about_this_result.source.description|snippet"),
    count=lambda params, arguments: min(arguments.num, MAX_PAGE),
    error_field="error",
    defaults={"q": "{sys.query}"},
    needs="q",
    effects="pays",
    description="Search the web with Google by keywords. Returns the title, URL and summary of each result.",
    source="agent/tools/google.py",
)


# GitHub


class GitHubParams(KeyParams):
    """Parameters of GitHub."""

    top_n: int = Field(10, gt=0, strict=True)
    """Number of repositories, at most 100."""


def _ask_github(service: Service, params: GitHubParams, arguments: Query) -> HttpRequest:
    """Return the request; GitHub's rate limits are higher with a key."""
    headers = {"Content-Type": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28", **_bearer(service)}
    query = {"q": arguments.query, "sort": "stars", "order": "desc", "per_page": str(min(params.top_n, MAX_PAGE))}
    return HttpRequest("GET", f"{service.address}/search/repositories", headers, query, timeout_s=15.0)


github = search(
    "GitHub",
    function="github_search",
    service=ToolService("GitHub", "github", "https://api.github.com", "optional"),
    params=GitHubParams,
    arguments=query_argument(
        "Words from the name or description of a repository. GitHub search qualifiers are supported."
    ),
    request=_ask_github,
    results="items",
    fields=("name", "html_url", lambda row: f"{read_text(row, 'description')}\n stars:{read_text(row, 'watchers')}"),
    count=lambda params, arguments: min(params.top_n, MAX_PAGE),
    error_field="message",
    effects="reads",
    description="Search GitHub repositories. Returns names, URLs and descriptions, most stars first.",
    source="agent/tools/github.py",
)


# BGPT

PAPER_LINES = (
    ("Title", "title"),
    ("Authors", "authors"),
    ("Journal", "journal"),
    ("Year", "year"),
    ("DOI", "doi"),
    ("Abstract", "abstract"),
    ("Methods", "methods_and_experimental_techniques|methods"),
    ("Sample size / population", "sample_size_and_population_characteristics|sample_size_and_population"),
    ("Results", "results_and_conclusions|results"),
    ("Limitations", "paper_limitations_and_biases|limitations"),
    ("Conflicts of interest", "conflict_of_interest_statements|conflict_of_interest"),
    ("Data availability", "data_availability_statements|data_availability"),
    ("Blind spots", "study_blindspots"),
    ("How to falsify", "how_to_falsify"),
)
"""The lines of a paper's text, each with the fields that can contain it."""


class BGPTParams(KeyParams):
    """Parameters of BGPT."""

    top_n: Annotated[int, Field(gt=0)] = 10
    """Number of papers."""
    days_back: Annotated[Annotated[int, Field(gt=0)] | None, BeforeValidator(lambda value: value or None)] = None
    """Maximum age of the papers, in days."""


def _ask_bgpt(service: Service, params: BGPTParams, arguments: Query) -> HttpRequest:
    body: dict[str, JsonValue] = {"query": arguments.query.strip(), "num_results": params.top_n}
    if service.secret:
        body["api_key"] = service.secret
    if params.days_back:
        body["days_back"] = params.days_back
    return HttpRequest("POST", f"{service.address}/api/mcp-search", json=body, timeout_s=25.0)


bgpt = search(
    "BGPT",
    function="bgpt_search",
    service=ToolService("BGPT", "bgpt", "https://bgpt.pro", "optional"),
    params=BGPTParams,
    arguments=query_argument("A scientific question or its most important terms."),
    request=_ask_bgpt,
    fields=(
        "title",
        "url|doi",
        lambda row: "\n".join(f"{label}: {_read(row, names) or '-'}" for label, names in PAPER_LINES),
    ),
    count=lambda params, arguments: params.top_n,
    error_field="error",
    timeout_s=30.0,
    effects="pays",
    description="Search scientific papers. Returns methods, sample sizes, results, limitations and conflicts of "
    "interest from their full texts.",
    source="agent/tools/bgpt.py",
)


# Wikipedia

_EDITION = re.compile(r"[a-z]{2,3}(-[a-z]{2,10})*")


class WikipediaParams(ComponentParams):
    """Parameters of Wikipedia."""

    top_n: int = Field(10, gt=0, le=50, strict=True)
    language: str = "en"
    """Language edition: the subdomain of ``wikipedia.org``."""

    @field_validator("language")
    @classmethod
    def _is_edition(cls, value: str) -> str:
        if not _EDITION.fullmatch(value):
            raise ValueError("must be the code of a language edition, for example en or zh")
        return value


def _ask_wikipedia(service: Service, params: WikipediaParams, arguments: Query) -> HttpRequest:
    """Return the request, which searches and reads the introductions."""
    query = {
        "action": "query",
        "generator": "search",
        "format": "json",
        "gsrlimit": str(params.top_n),
        "gsrsearch": arguments.query,
        "prop": "extracts|info",
        "exintro": "1",
        "explaintext": "1",
        "exlimit": "max",
        "inprop": "url",
    }
    headers = {"User-Agent": "ragflow-lg (https://github.com/ragflow-lg)"}
    return HttpRequest("GET", service.address.replace("{lang}", params.language), headers, query, timeout_s=60.0)


def _wikipedia_pages(service: Service, answer: Row) -> list[dict[str, Any]]:
    """Return the pages in search order."""
    if message := read_text(answer, "error", "info"):
        raise ServiceError(f"Wikipedia rejected the search: {message[:200]}")
    query: Any = answer.get("query") or {}
    if not isinstance(query, dict):
        raise ServiceError("Wikipedia answered with a 'query' that is not an object.")
    pages = cast("dict[str, Any]", query).get("pages")
    values = list(cast("dict[str, Any]", pages).values()) if isinstance(pages, dict) else pages
    return sorted(service.rows({"pages": values}, "pages"), key=lambda row: read_number(row.get("index"), 0.0))


wikipedia = search(
    "Wikipedia",
    function="wikipedia_search",
    service=ToolService("Wikipedia", "wikipedia", "https://{lang}.wikipedia.org/w/api.php"),
    params=WikipediaParams,
    arguments=query_argument("Title of an article, or words from it: a person, place, thing or event."),
    request=_ask_wikipedia,
    results=_wikipedia_pages,
    fields=("title", "fullurl", "extract"),
    count=lambda params, arguments: params.top_n,
    timeout_s=60.0,
    effects="reads",
    description="Search Wikipedia by title or keywords. Returns the introductions of matching articles.",
    source="agent/tools/wikipedia.py",
)
