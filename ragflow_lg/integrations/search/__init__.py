"""Tools that search the web or ask another service there: one file each, but `web_search`."""

from ragflow_lg.component.integration import Integration

INTEGRATION = Integration(
    __name__,
    components={
        "AkShare": ".akshare",
        "ArXiv": ".arxiv",
        "Crawler": ".crawler",
        "DeepL": ".deepl",
        "DuckDuckGo": ".duckduckgo",
        "GoogleScholar": ".google_scholar",
        "Jin10": ".jin10",
        "PubMed": ".pubmed",
        "QueritContents": ".querit_contents",
        "QWeather": ".qweather",
        "SearXNG": ".searxng",
        "TavilyExtract": ".tavily_extract",
        "TuShare": ".tushare",
        "WenCai": ".wencai",
        "YahooFinance": ".yahoo_finance",
        **dict.fromkeys(
            ("BGPT", "GitHub", "Google", "KeenableSearch", "QueritSearch", "TavilySearch", "Wikipedia"), ".web_search"
        ),
    },
)
