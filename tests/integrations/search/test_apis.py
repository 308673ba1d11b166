"""Requests and results of the tools whose services have stubs, which answer as the services do."""

import json
from typing import Any

from ragflow_lg.adapters.http.http_client import GuardedHttpClient
from ragflow_lg.adapters.http.http_settings import HttpSettings
from ragflow_lg.component.spec import Requirement
from ragflow_lg.integrations.search.qweather import PLACES_URL
from ragflow_lg.integrations.search.searxng import searxng
from ragflow_lg.integrations.search.web_search import keenable_search
from ragflow_lg.services.http import HttpResponse
from ragflow_lg.services.tool_policies import ToolSettings
from tests.fakes.run import bind, run_component
from tests.fakes.services import ScriptedHttp, fake_services
from tests.fakes.tool_stubs import google_scholar, pubmed
from tests.fakes.tool_stubs.rules import service
from tests.fakes.tool_stubs.stub import serving
from tests.harness.rows import each_row
from tests.integrations.search.cases import BY_NAME, run_tool, spec_of

SCHOLAR = {"sort_by": "date", "year_low": 2017, "year_high": "2020", "patents": False, "top_n": 1}
FILTERS = {"site_include": ["a.test"], "site_exclude": "b.test", "time_range": "d7", "country_include": ["laos"]}
SENT_FILTERS = {
    **{"sites": {"include": ["a.test"], "exclude": ["b.test"]}, "timeRange": {"date": "d7"}},
    **{"geo": {"countries": {"include": ["laos"]}}, "languages": {"include": ["english"]}},
}
TWO_URLS = ["https://a.test", "https://nothing.test"]
PUBMED = {"db": "pubmed", "tool": "ragflow-lg", "email": "a@b.test", "api_key": pubmed.KEY}
SITE = {"query": "Laos", "mode": "pro", "site": "example.org"}
NEWS = {"src": "eastmoney", "start_date": "2024-01-01 09:00:00", "end_date": "2026-01-02 00:00:00"}
CITED = "\n author: A Vaswani, N Shazeer - NeurIPS, 2017\n Abstract: Abstract 1."
ARTICLE = """├── URL: https://pubmed.ncbi.nlm.nih.gov/38000000
└── Content:
Title: The gene TP53 in H2O 38000000
Authors: Marie Curie\nJournal: Nature\nVolume: 7\nIssue: 2
Pages: 1-9\nDOI: 10.1/38000000\nAbstract: METHODS: We looked.\nRESULTS: We saw."""
NEWS_LINK = (
    '<a href="http://finance.eastmoney.com/a/202601010000.html">贵州茅台新闻0</a>\n 新闻内容: 内容0 更多 '
    "\n发布时间:2026-01-01 10:00:00 \n文章来源: 证券时报"
)
PAPER = "Sample size / population: n = 1,961\nResults: It worked 0 times.\nLimitations: -\n"
TITLE = "├── Title: Semaglutide trial 0\n├── URL: https://doi.org/10.1000/0\n"
MARKET = "| 0 | 600510.SH | 贵州茅台 | 1400.00 | 1.2 |\n| 1 | 600511.SH | 贵州茅台 | 1400.00 | 1.2 |"
YAHOO = [*("info", "history", "count", "financials", "income_stmt", "balance_sheet", "cash_flow_statement", "news")]
REPORT = [
    *("| industry | Consumer Electronics |", "| regularMarketPrice | 190.5 |", "| 1 | 2026-01-02 |  |  |  |  |  |"),
    *("| 0 | TotalAssets | 1000.5 |", "| 0 | Apple \\| rises | Reuters | https://e/n | 2026-01-01 |"),
]
WENCAI = {"is_cache": "1", "expand_index": "true"}
PRICES = {"info": False, "history": True}

RESULTS: list[tuple[str, dict[str, Any], dict[str, Any], list[str]]] = [
    ("AkShare", {"query": "600519", "top_n": 1}, {}, [NEWS_LINK]),
    ("BGPT", {"query": "semaglutide", "top_n": "1"}, {}, [TITLE, PAPER, "How to falsify: Repeat it."]),
    ("DeepL", {"query": "你好", "target_lang": "en-us"},
     {"/v2/translate": {"text": ["你好"], "source_lang": "ZH", "target_lang": "EN-US"}}, ["Hello"]),
    ("GoogleScholar", {"query": "x", **SCHOLAR},
     {"/scholar": {"hl": "en", "q": "x", "as_vis": "0", "as_sdt": "1,33", "as_ylo": "2017", "as_yhi": "2020",
                   "scisbd": "1"}}, []),
    ("GoogleScholar", {"query": "attention", "top_n": 2}, {}, ["A citation", "https://example.org/1", CITED]),
    ("Jin10", {"query": "gold"}, {"/data-api/flash": {"category": "1", "contain": "gold"}}, ["黄金上涨。"]),
    ("Jin10", {"query": "gold", "flash_type": "3", "contain": "oil", "filter": "x"},
     {"/data-api/flash": {"category": "3", "contain": "oil", "filter": "x"}}, ["黄"]),
    ("Jin10", {"query": "gold", "type": "calendar", "calendar_type": "us"},
     {"/data-api/calendar/data": {"category": "us"}}, ["| 0 | CPI | 美国 | 3.1 |"]),
    ("Jin10", {"query": "gold", "type": "calendar", "calendar_datatype": "holiday"},
     {"/data-api/calendar/holiday": {"category": "cj"}}, []),
    ("Jin10", {"query": "gold", "type": "symbols"},
     {"/data-api/symbols": {"type": "GOODS"}}, ["Commodity Code | Stock Exchange | Commodity Name"]),
    ("Jin10", {"query": "gold", "type": "symbols", "symbols_datatype": "quotes"},
     {"/data-api/quotes": {"type": "GOODS", "codes": "gold"}}, ["| Selling Price | Buying Price | Commodity Code |"]),
    ("Jin10", {"query": "gold", "type": "news"},
     {"/data-api/news": {"contain": "gold"}}, ["| 0 | 黄金周报 | 本周黄金上涨。 |"]),
    ("KeenableSearch", {"query": "Laos", "site": "example.org", "top_n": 2, "key": ""}, {"/v1/search/public": SITE},
     ["A description.", "Laos 1"]),
    ("KeenableSearch", {"query": "Laos", "site": "example.org", "top_n": 2}, {"/v1/search": SITE}, []),
    ("PubMed", {"query": "tp53", "top_n": 1, "email": "a@b.test"},
     {"/esearch.fcgi": {**PUBMED, "term": "tp53", "retmax": "1", "retmode": "json"}}, [ARTICLE]),
    ("PubMed", {"query": "tp53", "top_n": 2, "email": "a@b.test"},
     {"/efetch.fcgi": {**PUBMED, "id": "38000000,38000001", "retmode": "xml"}}, ["38000001"]),
    ("QueritSearch", {"query": "x", "count": 2}, {"/v1/search": {"query": "x", "count": 2, "chunksPerDoc": 3}}, []),
    ("QueritSearch", {"query": "Laos", "count": 2, **FILTERS, "language_include": ["english"], "chunks_per_doc": 1},
     {"/v1/search": {"query": "Laos", "count": 2, "chunksPerDoc": 1, "filters": SENT_FILTERS}}, []),
    ("QueritContents", {"urls": ", ".join(TWO_URLS), "format": "text"},
     {"/v1/contents": {"urls": TWO_URLS, "format": "text", "crawlTimeout": 10, "extrasMeta": False}},
     ['"url": "https://a.test", "title"', '"url": "https://nothing.test", "status": "error"']),
    ("QWeather", {"query": "北京 & 上海"}, {"/geo/v2/city/lookup": {"location": "北京 & 上海"}}, ["'windDir': '东"]),
    ("QWeather", {"query": "x", "time_period": "3d"}, {}, ["'fxDate': '2021-11-15'"]),
    ("QWeather", {"query": "x", "type": "indices"}, {}, ["2021-12-16\n运动指数: 较不宜, 风力较强。"]),
    ("QWeather", {"query": "x", "type": "airquality"}, {}, ["'aqi': '28'"]),
    ("SearXNG", {"query": "Laos", "top_n": "2"},
     {"/search": {"q": "Laos", "format": "json", "categories": "general", "language": "auto", "safesearch": "1",
                  "pageno": "1"}},
     ["https://example.org/0", "https://example.org/1"]),
    ("TuShare", {"query": "央行", "end_date": "2026-01-02 00:00:00"},
     {"/": {"api_name": "news", "token": service("tushare").KEY, "params": NEWS}},
     ["| datetime | content | title |\n| ---", "| --- |\n| 0 | 2026-01-01 10:01:00 | 央行开展逆回购 \\| 操作 |  |"]),
    ("TuShare", {"query": "央行", "keyword": "茅台"}, {}, ["贵州茅台发布公告"]),
    ("WenCai", {"query": "市盈率低于10", "top_n": 2, "query_type": "hkstock"},
     {"/v1/query2data": {"query": "港股 市盈率低于10", "page": "1", "limit": "2", **WENCAI}},
     ["|    | 股票代码 | 股票简称 | 最新价 | 最新涨跌幅 |", MARKET]),
    ("WenCai", {"query": "港股市盈率", "query_type": "hkstock", "top_n": 500},
     {"/v1/query2data": {"query": "港股市盈率", "page": "1", "limit": "50", **WENCAI}}, []),
    ("YahooFinance", {"stock_code": "aapl", **dict.fromkeys(YAHOO, True)}, {}, REPORT),
    ("YahooFinance", {"stock_code": "Apple", **PRICES}, {"/v8/finance/chart/AAPL": None}, []),
    ("YahooFinance", {"stock_code": "AAPL", **PRICES}, {"/v8/finance/chart/AAPL": None}, []),
]  # fmt: skip


@each_row(("name", "params", "sent", "says"), RESULTS)
async def test_requests_and_results(name: str, params: Any, sent: dict[str, Any], says: list[str]) -> None:
    stub = BY_NAME[name].stub()
    result = await run_tool(name, stub, **params)
    assert result.error is None
    received = {call.path: call.json if call.body else call.query for call in stub.received}
    for path, value in sent.items():
        assert path in received
        assert value is None or received[path] == value
    text = BY_NAME[name].text_of(result)
    assert [part for part in says if part not in text] == []


@each_row(
    ("name", "params", "error"),
    [
        ("BGPT", {"key": "", "query": " q ", "top_n": 51, "days_back": "30"}, "Free tier limit of 50 results reached"),
        ("DeepL", {"query": "quota"}, "Quota Exceeded"),
        ("DeepL", {"query": "nothing"}, "DeepL answered without a translation."),
        ("GoogleScholar", {"query": "robot"}, "it may be a CAPTCHA"),
        ("Jin10", {"key": "other-key", "query": "gold"}, "secret-key error"),
        (
            "KeenableSearch",
            {"key": "", "query": "x", "mode": "realtime"},
            "no API key: set [tools.keenable] api_key in",
        ),
        ("PubMed", {"query": "broken"}, "PubMed rejected the search: Search Backend failed"),
        ("QWeather", {"query": "nothing"}, "QWeather answered 404: It does not know this place"),
        ("QWeather", {"query": "busy"}, "QWeather answered 429: The key"),
        ("QWeather", {"query": "x", "key": "other"}, "401: The key is wrong"),
        ("SearXNG", {"query": "forbidden"}, "SearXNG answered 403"),
        ("TuShare", {"query": "x", "src": "sina"}, "最多访问该接口1次"),
        ("TuShare", {"query": "x", "key": "other-token"}, "token不对"),
        ("WenCai", {"query": "额度"}, "今日调用次数已用完"),
        ("YahooFinance", {"stock_code": "NO/PE", **PRICES}, "Yahoo Finance answered 404"),
    ],
)
async def test_an_error_has_the_words_of_the_service(name: str, params: dict[str, Any], error: str) -> None:
    assert error in str((await run_tool(name, **params)).error)


@each_row(
    ("name", "params", "problem"),
    [
        ("QueritSearch", {"query": "Laos", "count": -1}, "count"),
        ("QueritSearch", {"query": "Laos", "chunks_per_doc": 4}, "chunks_per_doc"),
        ("QueritSearch", {"query": "Laos", "time_range": "yesterday"}, "time_range"),
        ("QueritContents", {"urls": ["ftp://a.test"]}, ""),
        ("QueritContents", {"urls": ["a.test"]}, ""),
        ("QueritContents", {"urls": ["https://["]}, ""),
        ("QueritContents", {"urls": ["https://a.test"] * 11}, ""),
        ("QueritContents", {"urls": ["https://a.test"], "crawl_timeout": 61}, ""),
        ("QueritContents", {"urls": ["https://a.test"], "format": "pdf"}, ""),
    ],
)
async def test_invalid_arguments_are_errors_without_a_request(name: str, params: dict[str, Any], problem: str) -> None:
    stub = BY_NAME[name].stub()
    result = await run_tool(name, stub, **params)
    assert result.error
    assert problem in result.error
    assert stub.received == []


async def test_at_most_as_many_as_the_service_gives_are_requested() -> None:
    stub = BY_NAME["AkShare"].stub()
    result = await run_tool("AkShare", stub, query="600519", top_n=5000)
    asked = json.loads(stub.received[0].query["param"])
    assert asked["param"]["cmsArticleWebOld"]["pageSize"] == 100
    assert result.outputs["formalized_content"].count("<a ") == 100
    for top_n, starts in ((12, [None, "10"]), (500, [None, "10", "20"])):
        stub = google_scholar.stub()
        result = await run_tool("GoogleScholar", stub, query="attention", top_n=top_n)
        assert [call.query.get("start") for call in stub.received] == starts
        assert len(result.outputs["json"]) == min(top_n, google_scholar.TOTAL)


@each_row(
    ("name", "params", "keys", "answers"),
    [
        (
            "DeepL",
            {},
            {"deepl": "k:fx"},
            {"https://api-free.deepl.com/v2/translate": '{"translations": [{"text": "Hi"}]}'},
        ),
        ("DeepL", {}, {"deepl": "k"}, {"https://api.deepl.com/v2/translate": '{"translations": [{"text": "Hi"}]}'}),
        *(
            (
                "QWeather",
                {"user_type": user},
                {"qweather": "k"},
                {
                    PLACES_URL: '{"code": "200", "location": [{"id": "1"}]}',
                    f"https://{host}.qweather.com/v7/weather/now": '{"code": "200", "now": {"temp": "Hi"}}',
                },
            )
            for user, host in (("free", "devapi"), ("paid", "api"))
        ),
    ],
)
async def test_the_account_decides_the_address(name: str, params: Any, keys: Any, answers: dict[str, str]) -> None:
    http = ScriptedHttp({url: HttpResponse(200, {}, body, "") for url, body in answers.items()})
    services = fake_services(http=http, tools=ToolSettings({}, keys))
    result = await run_component(spec_of(name), {"query": "x", **params}, services=services)
    assert "Hi" in result.outputs["formalized_content"]


def test_only_some_modes_need_a_key() -> None:
    needs = (Requirement("key", "keenable"),)
    for params, expected in (({"mode": "realtime"}, needs), ({"mode": "realtime", "api_key": "k"}, ()), ({}, ())):
        assert tuple(keenable_search.requires(bind(keenable_search, params))) == expected


async def test_without_ids_no_articles_are_requested() -> None:
    stub = pubmed.stub()
    result = await run_tool("PubMed", stub, query="nothing")
    assert (result.error, result.outputs["json"], len(stub.received)) == (None, [], 1)


async def test_the_canvas_can_name_the_instance_but_not_one_in_a_private_network() -> None:
    async with serving(service("searxng").stub()) as host:
        for allowed in ((host,), ()):
            http = GuardedHttpClient(HttpSettings(allow=allowed))
            params = {"query": "Laos", "searxng_url": f"http://{host}/"}
            result = await run_component(searxng, params, services=fake_services(http=http))
            await http.aclose()
            assert (result.error is None) == bool(allowed)
            assert allowed or "[http] allow" in str(result.error)
    result = await run_component(searxng, {"query": "Laos"}, services=fake_services())
    assert (result.error, result.outputs["json"], result.outputs["formalized_content"]) == (None, [], "")
