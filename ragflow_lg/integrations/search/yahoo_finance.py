"""YahooFinance: prices, statements and news of a company."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast
from urllib.parse import quote

from pydantic import BaseModel, Field

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.lenient_values import as_list, as_map
from ragflow_lg.base.markdown_table import markdown_pairs, markdown_table
from ragflow_lg.base.values import JsonValue, to_text
from ragflow_lg.component.service_client import MAX_ROWS, Service, open_service, read_label, read_text, read_time
from ragflow_lg.component.spec import ComponentParams, ToolResult, ToolService
from ragflow_lg.component.tool import NO_REPORT, QueryText, ReportOutputs, RunContext, build_report, tool
from ragflow_lg.services.http import HttpRequest

SERVICE = ToolService("Yahoo Finance", "yahoo", "https://query2.finance.yahoo.com")
COOKIE_URL = "https://fc.yahoo.com"
HEADERS = {"User-Agent": "Mozilla/5.0 (compatible; ragflow-lg)"}
REQUEST_S = 15.0
NEWS_COUNT = 10
DAY_S = 86_400
STATEMENTS_SINCE = 1_483_142_400
"""The end of 2016, in epoch seconds: the first statements that Yahoo Finance has."""

INFO = "assetProfile,financialData,defaultKeyStatistics,price,quoteType,summaryDetail"
INCOME = (
    "TotalRevenue CostOfRevenue GrossProfit OperatingExpense OperatingIncome PretaxIncome TaxProvision NetIncome "
    "EBITDA BasicEPS DilutedEPS"
)
BALANCE = (
    "TotalAssets CurrentAssets CashAndCashEquivalents Inventory TotalLiabilitiesNetMinorityInterest "
    "CurrentLiabilities LongTermDebt TotalDebt StockholdersEquity RetainedEarnings OrdinarySharesNumber"
)
CASH_FLOW = (
    "OperatingCashFlow InvestingCashFlow FinancingCashFlow CapitalExpenditure FreeCashFlow CashDividendsPaid "
    "RepurchaseOfCapitalStock EndCashPosition"
)
SHARES = "OrdinarySharesNumber ShareIssued"

_COOKIE = re.compile(r"(?:^|, )([A-Za-z0-9_]{1,40}=[^;,\s]{1,1000})")
_CRUMB = re.compile(r"[!-~]{1,40}")


class Params(ComponentParams):
    """Parameters of YahooFinance."""

    info: bool = True
    """Whether to report prices, key figures and the company's profile."""
    history: bool = False
    """Whether to report the prices of the last month."""
    count: bool = False
    """Whether to report the number of shares."""
    financials: bool = False
    """Whether to report the calendar: earnings and dividends."""
    income_stmt: bool = False
    balance_sheet: bool = False
    cash_flow_statement: bool = False
    news: bool = True


class Arguments(BaseModel):
    """The company."""

    stock_code: QueryText = Field("", description="The code of a stock, such as AAPL or 0700.HK, or a company's name.")


class Session(NamedTuple):
    """What requests to Yahoo Finance have in common."""

    ctx: RunContext
    service: Service
    symbol: str
    headers: Mapping[str, str]
    crumb: str

    async def get(self, path: str, query: Mapping[str, str], field: str) -> dict[str, Any]:
        """Return the first result of a request.

        Raises:
            ServiceError: if Yahoo Finance reports an error, or has no result.
        """
        url = f"{self.service.address}{path}/{quote(self.symbol, safe='')}"
        query = {**query, **({"crumb": self.crumb} if self.crumb else {})}
        request = HttpRequest("GET", url, self.headers, query, timeout_s=REQUEST_S)
        return _result(self.service, await self.service.ask_json(self.ctx, request), field)


@tool(
    "YahooFinance",
    function="yahoo_finance",
    params=Params,
    arguments=Arguments,
    outputs=ReportOutputs,
    defaults={"stock_code": "{sys.query}"},
    needs="stock_code",
    blank=NO_REPORT,
    timeout_s=60.0,
    effects="reads",
    description="Look up a listed company: its prices, key figures, financial statements and news.",
    source="agent/tools/yahoofinance.py",
    service=SERVICE,
)
async def yahoo_finance(ctx: RunContext, params: Params, arguments: Arguments) -> ToolResult:
    """Request the chosen sections. The package ``yfinance`` asks the same addresses, with connections of its own."""
    service = open_service(ctx, SERVICE)
    found = await _search(ctx, service, arguments.stock_code.strip())
    symbol = _symbol(service, found, arguments.stock_code.strip())
    session = Session(ctx, service, symbol, HEADERS, "")
    if params.info or params.financials:
        session = await _sign_in(session)
    sections: list[str] = []
    if params.info:
        sections.append(_section("Information", markdown_pairs(await _summary(session, INFO))))
    if params.history:
        sections.append(_section("History", markdown_table(await _prices(session))))
    if params.financials:
        sections.append(_section("Calendar", markdown_pairs(await _summary(session, "calendarEvents"))))
    statements = (
        (params.count, "Shares", SHARES),
        (params.income_stmt, "Income statement", INCOME),
        (params.balance_sheet, "Balance sheet", BALANCE),
        (params.cash_flow_statement, "Cash flow statement", CASH_FLOW),
    )
    for is_wanted, title, names in statements:
        if is_wanted:
            yearly, quarterly = await _statements(session, names)
            sections += [_section(title, yearly), _section(f"Quarterly {title.lower()}", quarterly)]
    if params.news:
        rows = service.rows({"news": [], **found}, "news", NEWS_COUNT)
        sections.append(_section("News", markdown_table([_news(row) for row in rows])))
    return build_report("\n\n".join(sections))


def _section(title: str, table: str) -> str:
    return f"# {title}:\n{table}\n"


async def _search(ctx: RunContext, service: Service, text: str) -> dict[str, Any]:
    """Search for the company and its news in one request."""
    query = {"q": text, "quotesCount": "5", "newsCount": str(NEWS_COUNT)}
    request = HttpRequest("GET", f"{service.address}/v1/finance/search", HEADERS, query, timeout_s=REQUEST_S)
    return await service.ask_json(ctx, request)


def _symbol(service: Service, found: Mapping[str, Any], text: str) -> str:
    """Return the code that was given, or the one of the first company that was found by name."""
    symbols = [read_label(row, "symbol") for row in service.rows({"quotes": [], **found}, "quotes")]
    known = [symbol for symbol in symbols if symbol.upper() == text.upper()]
    return next(iter([*known, *filter(None, symbols)]), text)


async def _sign_in(session: Session) -> Session:
    """Return the session with the cookie and the token (crumb) that summaries require."""
    own_address = session.ctx.services.tools.endpoint(SERVICE.section, "")
    request = HttpRequest("GET", own_address or COOKIE_URL, HEADERS, timeout_s=REQUEST_S)
    answer = await session.ctx.services.http.send(request)  # its status is 404, with a cookie
    header = answer.headers.get("set-cookie", "")
    cookies = "; ".join(_COOKIE.findall(header)) or header.strip()[:1000]  # in a recording, it is redacted
    if not cookies:
        raise ServiceError(f"Yahoo Finance answered {answer.status} without a cookie.", is_retryable=True)
    headers = {**HEADERS, "Cookie": cookies}
    url = f"{session.service.address}/v1/test/getcrumb"
    response = await session.service.ask(session.ctx, HttpRequest("GET", url, headers, timeout_s=REQUEST_S))
    crumb = response.text.strip()
    if not _CRUMB.fullmatch(crumb) or crumb.startswith(("<", "{")):
        raise ServiceError("Yahoo Finance answered 200 without a token (crumb).", is_retryable=True)
    return session._replace(headers=headers, crumb=crumb)


def _result(service: Service, answer: Mapping[str, Any], field: str) -> dict[str, Any]:
    """Return the first result in an answer of the form ``{field: {result: [...], error: {...}}}``."""
    inner: Any = answer.get(field)
    if not isinstance(inner, dict):
        raise ServiceError(f"Yahoo Finance answered without {field!r}.")
    found = cast("dict[str, Any]", inner)
    rows = service.rows({"result": [], **found}, "result")
    if not rows:
        raise ServiceError(read_text(found, "error", "description")[:500] or "Yahoo Finance answered without a result.")
    return {**rows[0], "results": rows}


async def _summary(session: Session, modules: str) -> dict[str, JsonValue]:
    """Return the values of modules as one map; numbers without their formatted forms."""
    query = {"modules": modules, "formatted": "false", "corsDomain": "finance.yahoo.com"}
    result = await session.get("/v10/finance/quoteSummary", query, "quoteSummary")
    values: dict[str, JsonValue] = {}
    for module in modules.split(","):
        part = result.get(module)
        for name, value in as_map(part).items():
            if name != "maxAge" and value not in (None, {}, []):
                values.setdefault(name, _raw(value))
    return values


def _raw(value: Any) -> JsonValue:
    if isinstance(value, dict) and "raw" in value:
        return cast("JsonValue", value["raw"])
    return cast("JsonValue", value)


async def _prices(session: Session) -> list[dict[str, JsonValue]]:
    """Return the daily prices of the last month."""
    result = await session.get("/v8/finance/chart", {"range": "1mo", "interval": "1d"}, "chart")
    times = _list(result.get("timestamp"))
    quotes = _list(as_map(result.get("indicators")).get("quote"))
    columns = as_map(quotes[0] if quotes else None)
    names = ("open", "high", "low", "close", "volume")
    values = {name: _list(columns.get(name)) for name in names}
    return [
        {"Date": _date(time), **{name.title(): (values[name][i] if i < len(values[name]) else None) for name in names}}
        for i, time in enumerate(times[:MAX_ROWS])
    ]


async def _statements(session: Session, names: str) -> tuple[str, str]:
    """Return the yearly and the quarterly statements as tables, with a line per name and a column per date."""
    types = ",".join(f"{period}{name}" for period in ("annual", "quarterly") for name in names.split())
    until = int(session.ctx.services.clock.now()) + DAY_S
    query = {"symbol": session.symbol, "type": types, "period1": str(STATEMENTS_SINCE), "period2": str(until)}
    path = "/ws/fundamentals-timeseries/v1/finance/timeseries"
    results = (await session.get(path, query, "timeseries"))["results"]
    yearly, quarterly = (_statement(results, period, names.split()) for period in ("annual", "quarterly"))
    return yearly, quarterly


def _statement(results: list[dict[str, Any]], period: str, names: list[str]) -> str:
    values: dict[str, dict[str, JsonValue]] = {}
    for name, date, value in _entries(results, period, names):
        values.setdefault(name, {})[date] = value
    dates = sorted({date for row in values.values() for date in row}, reverse=True)
    return markdown_table([{"": name, **values[name]} for name in names if name in values], ["", *dates])


def _entries(results: list[dict[str, Any]], period: str, names: list[str]) -> Iterator[tuple[str, str, JsonValue]]:
    for row in results:
        for name in names:
            for entry in _list(row.get(period + name)):
                if isinstance(entry, dict):
                    known = cast("dict[str, Any]", entry)
                    yield name, read_label(known, "asOfDate"), _raw(known.get("reportedValue"))


def _news(row: Mapping[str, Any]) -> dict[str, JsonValue]:
    published = _date(row.get("providerPublishTime"))
    names = ("title", "publisher", "link")
    return {**{name: read_label(row, name) for name in names}, "published": published}


def _date(value: Any) -> str:
    """Return epoch seconds as a date; other values as text."""
    time = read_time(value)
    return time.date().isoformat() if time else to_text(value)[:40]


def _list(value: Any) -> list[Any]:
    return as_list(value)[:MAX_ROWS]
