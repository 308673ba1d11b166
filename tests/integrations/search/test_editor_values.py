"""The values that RAGFlow's editor stores for a new tool (``web/src/pages/agent/constant/index.tsx``).

For AkShare, DeepL, Jin10, QWeather and TuShare, which have no form there, the values are the engine's defaults.
"""

from typing import Any

from ragflow_lg.dsl_compiler import check_canvas
from tests.fakes.canvas import CATALOG, canvas, node
from tests.harness.rows import each_row

TEXT = {"formalized_content": {"value": "", "type": "string"}}
BOTH: dict[str, Any] = {**TEXT, "json": {"value": [], "type": "Array<Object>"}}
REPORT = {"report": {"value": "", "type": "string"}}
QUERY = {"query": "sys.query"}

VALUES: dict[str, dict[str, Any]] = {
    "AkShare": {"top_n": 10, **QUERY, "outputs": TEXT},
    "BGPT": {"top_n": 10, "api_key": "", "days_back": "", **QUERY, "outputs": BOTH},
    "Crawler": {"extract_type": "markdown", "query": ""},
    "DeepL": {"auth_key": "xxx", "source_lang": "ZH", "target_lang": "EN-GB"},
    "GoogleScholar": {"top_n": 12, "sort_by": "relevance", "patents": True, **QUERY, "outputs": BOTH},
    "Jin10": {"type": "flash", "secret_key": "xxx", "flash_type": "1", "contain": "", "filter": ""},
    "KeenableSearch": {"api_key": "", **QUERY, "mode": "pro", "site": "", "top_n": 10, "outputs": BOTH},
    "PubMed": {"top_n": 12, "email": "", **QUERY, "outputs": TEXT},
    "QueritSearch": {
        "api_key": "",
        **QUERY,
        "count": 10,
        "chunks_per_doc": 3,
        "site_include": [],
        "site_exclude": [],
        "time_range": "",
        "country_include": [],
        "language_include": [],
        "outputs": {**TEXT, "json": {"value": {}, "type": "object"}},
    },
    "QueritContents": {"api_key": "", "urls": "", "format": "markdown", "crawl_timeout": 10, "extras_meta": False},
    "QWeather": {"web_apikey": "xxx", "type": "weather", "user_type": "free", "time_period": "now"},
    "SearXNG": {"top_n": "10", "searxng_url": "", **QUERY, "outputs": BOTH},
    "TuShare": {"token": "xxx", "src": "eastmoney", "start_date": "2024-01-01 09:00:00", "keyword": ""},
    "WenCai": {"top_n": 20, "query_type": "stock", **QUERY, "outputs": REPORT},
    "YahooFinance": {
        "stock_code": "",
        **dict.fromkeys(["history", "financials", "balance_sheet", "cash_flow_statement"], False),
        "info": True,
        "news": True,
        "outputs": REPORT,
    },
}


@each_row("name", VALUES)
def test_they_are_valid_for_a_node_and_for_an_agent(name: str) -> None:
    entry = {"component_name": name, "name": "T", "params": VALUES[name]}
    agent = node("Agent", {"llm_id": "m@T", "tools": [entry]}, ["t"])
    plan, diagnostics = check_canvas(canvas({"a": agent, "t": node(name, VALUES[name])}), CATALOG)
    assert plan is not None
    wrong = [d for d in diagnostics if d.severity != "info" and d.code != "key-missing"]
    assert [str(d) for d in wrong if "so the node does nothing" not in d.message] == []  # the editor leaves it empty
