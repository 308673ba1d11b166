"""For each service with a stub: how its tool is called, and what it answers."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from ragflow_lg.adapters.http.http_client import GuardedHttpClient
from ragflow_lg.adapters.http.http_settings import HttpSettings
from ragflow_lg.catalog import load_catalog
from ragflow_lg.component.spec import AnySpec
from ragflow_lg.services.services import Services
from ragflow_lg.services.tool_policies import CrawlerRules, ToolSettings
from tests.fakes.run import Result, run_component
from tests.fakes.services import fake_services
from tests.fakes.tool_stubs import (
    akshare,
    bgpt,
    deepl,
    google_scholar,
    jin10,
    keenable,
    pubmed,
    querit,
    qweather,
    searxng,
    tushare,
    web_site,
    wencai,
    yahoo,
)
from tests.fakes.tool_stubs.stub import ServiceStub, serving


@dataclass(frozen=True)
class Contract:
    """A tool and its service. ``{host}`` in the arguments is the host of the stub."""

    name: str
    stub: Callable[[], ServiceStub]
    says: str
    """A part of the result of a usual call."""
    query: str = "Laos"
    params: dict[str, Any] = field(default_factory=dict[str, Any])
    key: str = ""
    nothing: str = "nothing"
    """A query that finds nothing."""
    reads_any_text: bool = False

    @property
    def spec(self) -> AnySpec:
        spec = load_catalog().get(self.name)
        assert spec is not None
        return spec

    @property
    def section(self) -> str:
        assert self.spec.tool is not None
        return self.spec.tool.service.section if self.spec.tool.service else "none"

    @property
    def needs(self) -> str:
        assert self.spec.tool is not None
        return self.spec.tool.needs

    @property
    def output(self) -> str:
        fields = self.spec.outputs.model_fields
        return next(iter(fields), "json")

    def arguments(self, host: str, query: str = "") -> dict[str, Any]:
        return {self.needs: (query or self.query).replace("{host}", host)}


CONTRACTS = [
    Contract(
        "AkShare",
        akshare.stub,
        '<a href="http://finance.eastmoney.com/a/202601010000.html">贵州茅台新闻0</a>',
        "600519",
    ),
    Contract("BGPT", bgpt.stub, "Results: It worked 3 times.", key=bgpt.KEY),
    Contract("Crawler", web_site.stub, "# Laos & the Mekong", "http://{host}/laos", nothing="", reads_any_text=True),
    Contract("DeepL", deepl.stub, "Hello", "你好", key=deepl.KEY, nothing=""),
    Contract("GoogleScholar", google_scholar.stub, "Attention 1"),
    Contract("Jin10", jin10.stub, "黄金上涨。", "黄金", key=jin10.KEY),
    Contract("KeenableSearch", keenable.stub, "Text 3 about Laos.", key=keenable.KEY),
    Contract("PubMed", pubmed.stub, "The gene TP53 in H2O 38000000", key=pubmed.KEY),
    Contract("QueritSearch", querit.stub, "Text 3 about Laos.", key=querit.KEY),
    Contract(
        "QueritContents",
        querit.stub,
        "markdown of https://e/laos",
        "https://e/laos",
        key=querit.KEY,
        nothing="https://nothing",
    ),
    Contract("QWeather", qweather.stub, "多云", "北京", key=qweather.KEY, nothing=""),
    Contract("SearXNG", searxng.stub, "Text 3 about Laos."),
    Contract("TuShare", tushare.stub, "贵州茅台发布公告", "茅台", key=tushare.KEY),
    Contract("WenCai", wencai.stub, "| 0 | 600510.SH | 贵州茅台 |", "茅台股价", key=wencai.KEY),
    Contract("YahooFinance", yahoo.stub, "Apple \\| rises", "AAPL", nothing=""),
]


BY_NAME = {contract.name: contract for contract in CONTRACTS}


async def run_tool(
    name: str,
    stub: ServiceStub | None = None,
    *,
    key: str | None = None,
    crawler: CrawlerRules | None = None,
    **params: Any,
) -> Result:
    """Run a tool as a node over a stub; ``{host}`` in the query is the host of the stub."""
    contract = BY_NAME[name]
    async with service_of(contract, stub or contract.stub(), key=key, crawler=crawler) as (host, services):
        if "query" in params:
            params["query"] = params["query"].replace("{host}", host)
        return await run_component(contract.spec, {"delay_after_error": 0, **params}, services=services)


@asynccontextmanager
async def service_of(
    contract: Contract,
    stub: ServiceStub,
    *,
    key: str | None = None,
    timeout_s: float = 10.0,
    crawler: CrawlerRules | None = None,
    **more: Any,
) -> AsyncGenerator[tuple[str, Services]]:
    """Serve a stub; yield its host and services with the real, guarded HTTP client."""
    async with serving(stub) as host:
        http = GuardedHttpClient(HttpSettings(allow=(host,), timeout_s=timeout_s))
        keys = {contract.section: contract.key if key is None else key}
        tools = ToolSettings({contract.section: f"http://{host}/"}, keys, crawler or CrawlerRules())
        try:
            yield host, fake_services(http=http, tools=tools, **more)
        finally:
            await http.aclose()
