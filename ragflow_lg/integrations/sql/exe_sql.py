"""ExeSQL: run SQL on a database."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, NoReturn

from pydantic import AfterValidator, BaseModel, Field

from ragflow_lg.base.diagnostics import Finding
from ragflow_lg.base.errors import ComponentError
from ragflow_lg.base.values import JsonValue, to_text
from ragflow_lg.component.named_account import AccountText, NamedAccount
from ragflow_lg.component.spec import ComponentParams, OnceParams, ToolExample, ToolResult
from ragflow_lg.component.tool import QueryText, RunContext, tool
from ragflow_lg.dsl.redaction import SECRET
from ragflow_lg.dsl.variable_references import Template
from ragflow_lg.services.databases import DatabaseAccount, Databases, SqlQuery, StatementResult, Target

LIMIT_S = 60.0
MAX_ROWS = 1024
NO_RECORD = "No record in the database!"

_TYPES = ("mysql", "mariadb", "oceanbase", "postgres", "mssql", "IBM DB2", "trino")
_NAMES = {name.lower(): name for name in (*_TYPES, "sqlite")} | {"postgresql": "postgres"}
_DEFAULT_PORT = 3306
_BARE_REFERENCE = re.compile(
    r"""['"][%_ ]*((?:begin|[A-Z]\w*:\w+)@\w[\w.]*|sys\.(?:query|user_id|date|files|history)|env\.\w+)[%_ ]*['"]"""
)
"""A text in SQL that is nothing but a reference without braces."""


def _check_type(value: str) -> str:
    name = _NAMES.get(value.strip().lower())
    if name is None:
        raise ValueError(f"should be one of {', '.join(_TYPES)}")
    return name


ACCOUNT = NamedAccount("ExeSQL", "connection", "a connection", "sql.connections", "database")


class Params(OnceParams):
    """Parameters of ExeSQL: an account, or the name of a connection in the settings."""

    connection: AccountText = ""
    """Name of a connection in the settings, ``[sql.connections.NAME]``, instead of an account in the canvas."""
    db_type: Annotated[AccountText, AfterValidator(_check_type)] = Field("mysql", examples=list(_TYPES))
    database: AccountText = ""
    username: AccountText = ""
    host: AccountText = ""
    port: Annotated[int, Field(gt=0, lt=65536)] = _DEFAULT_PORT
    password: Annotated[AccountText, SECRET] = Field("", repr=False)
    max_records: Annotated[int, Field(gt=0)] = MAX_ROWS
    """Maximum number of rows of each statement."""
    bind_references: bool = False
    """Whether references inside the SQL are sent as values, apart from it, so that they cannot change the statement.
    Otherwise their text becomes a part of the statement, as in RAGFlow."""


class Arguments(BaseModel):
    """The arguments of a call."""

    sql: QueryText = Field("", description="The SQL to run, in the dialect of the database.")


def _target(params: Params) -> Target:
    account = DatabaseAccount(
        params.db_type, params.host.strip(), params.port, params.database, params.username, params.password
    )
    return ACCOUNT.name(params) or account


def _missing(params: Params) -> list[str]:
    """Return the parameters of the account that are missing, as RAGFlow names them."""
    if _is_own_file(params):
        return []
    return ACCOUNT.missing(
        params, ("database", "username", "host", *(() if params.db_type == "trino" else ("password",)))
    )


def _is_own_file(params: Params) -> bool:
    """Return whether the canvas itself names an SQLite file, which only the settings may do."""
    return params.db_type == "sqlite" and not ACCOUNT.name(params)


def _lint(params: Params) -> Iterable[Finding]:
    yield from ACCOUNT.findings(_missing(params))
    if _is_own_file(params):
        message = "A canvas cannot name an SQLite file, so ExeSQL fails when it runs."
        hint = "Add the file to the settings as [sql.connections.NAME], and set connection to its name."
        yield Finding("account-missing", "warning", ("db_type",), message, hint)
    sql: Any = (params.__pydantic_extra__ or {}).get("sql", getattr(params, "sql", None))
    if isinstance(sql, Template) and (name := _BARE_REFERENCE.search(_without_values(sql))):
        message = f"{name[1]!r} looks like a reference, but has no braces, so it is searched for as it stands."
        yield Finding("params-unsupported", "info", ("sql",), message, f"Write {{{name[1]}}}.")
    if isinstance(sql, Template) and sql.sole_reference is None and any(sql.references) and not params.bind_references:
        message = "References in the SQL become a part of the statement: anyone who sets their values can change it."
        hint = "Set bind_references to true, unless they are names of tables or columns."
        yield Finding("sql-reference-text", "info", ("sql",), message, hint)


def _without_values(sql: Template) -> str:
    return "".join(part if isinstance(part, str) else "{}" for part in sql.segments)


def _refuse_blank(_: ComponentParams) -> NoReturn:
    raise ComponentError("SQL for `ExeSQL` MUST not be empty.")


@tool(
    "ExeSQL",
    function="execute_sql",
    params=Params,
    arguments=Arguments,
    needs="sql",
    defaults={"sql": "{sys.query}"},
    blank=_refuse_blank,
    description="Run SQL on a database and return the rows.",
    source="agent/tools/exesql.py",
    timeout_s=LIMIT_S,
    retries=False,
    effects=lambda ctx, params: "writes" if ctx.services.of(Databases).allows_writes(_target(params)) else "reads",
    lint=_lint,
    requires=ACCOUNT.requirements,
    example=ToolExample("[sql.connections.NAME]; without it, the canvas contains the account", {"connection": "NAME"}),
)
async def exe_sql(ctx: RunContext, params: Params, arguments: Arguments) -> ToolResult:
    """Run the statements and return the rows of each, as objects and as a table in Markdown."""
    ACCOUNT.check(_missing(params), ctx.node.id)
    query = SqlQuery(arguments.sql, {}, params.max_records)
    template: Any = getattr(params, "sql", None)
    is_node = ctx.owner == ctx.node.id
    if params.bind_references and is_node and isinstance(template, Template) and template.sole_reference is None:
        query = _bound_query(ctx, params, template)
    return _to_result(await ctx.services.of(Databases).run(_target(params), query))


def _bound_query(ctx: RunContext, params: Params, template: Template) -> SqlQuery:
    """Return the query with marks in place of its references."""
    literal = "".join(part for part in template.segments if isinstance(part, str))
    prefix = "ragflow_lg_value"
    while prefix in literal:
        prefix += "_x"
    pieces: list[str] = []
    values: dict[str, JsonValue] = {}
    for part in template.segments:
        if isinstance(part, str):
            pieces.append(part)
            continue
        mark = f"{prefix}_{len(values)}_"
        values[mark] = ctx.value(part)
        pieces.append(mark)
    return SqlQuery("".join(pieces), values, params.max_records)


def _to_result(results: Iterable[StatementResult]) -> ToolResult:
    """Return the results in RAGFlow's form. A statement without rows appears only in ``json``."""
    entries: list[JsonValue] = []
    texts: list[str] = []
    for result in results:
        entry = _entry(result)
        entries.append(entry)
        if result.columns and result.rows:
            texts.append(aligned_table(result.columns, [list(row.values()) for row in result.rows]))
            if result.has_more:
                texts.append(f"These are the first {len(result.rows):,} rows. There are more.")
        elif isinstance(entry, Mapping) and entry["content"] != NO_RECORD:
            texts.append(str(entry["content"]))
    text = "\n\n".join(texts)
    return ToolResult(text or NO_RECORD, {"formalized_content": text, "json": entries})


def _entry(result: StatementResult) -> JsonValue:
    if result.is_refused:
        return {"content": result.error}
    if result.error:
        return {"content": f"SQL Execution Failed: {result.sql}\n{result.error}"}
    if result.changed is not None:
        return {"content": f"Rows changed: {result.changed}" if result.changed >= 0 else "The statement was run."}
    return [dict(row) for row in result.rows] if result.rows else {"content": NO_RECORD}


MIN_PADDING = 2
"""How much wider than its title a column is at least, as in the library that RAGFlow uses."""

MAX_DECIMAL_CHARS = 24
"""Longer numbers are written with an exponent."""


def aligned_table(columns: Sequence[str], rows: Sequence[Sequence[JsonValue]]) -> str:
    """Return a table. Columns of numbers are aligned to the right, and floats have 6 decimals or what they need.

    >>> print(aligned_table(["name", "price"], [["tea", 2.5], ["jam", None]]))
    | name   |    price |
    |:-------|---------:|
    | tea    | 2.500000 |
    | jam    |          |
    """
    aligned = [_column(name, values) for name, values in zip(columns, zip(*rows, strict=True), strict=True)]
    lines = ["|".join(["", *(cells[0] for cells, _ in aligned), ""])]
    rules = [("-" * (len(cells[0]) - 1), is_right) for cells, is_right in aligned]
    lines.append("|".join(["", *(f"{rule}:" if is_right else f":{rule}" for rule, is_right in rules), ""]))
    lines += ["|".join(["", *(cells[index] for cells, _ in aligned), ""]) for index in range(1, len(rows) + 1)]
    return "\n".join(lines)


def _column(name: str, values: Sequence[JsonValue]) -> tuple[list[str], bool]:
    """Return the cells of a column, the title first, and whether they are aligned to the right."""
    present = [value for value in values if value is not None]
    is_number = bool(present) and all(isinstance(v, int | float) and not isinstance(v, bool) for v in present)
    has_floats = is_number and any(isinstance(value, float) for value in present)
    texts = [_cell(value, has_floats=has_floats) for value in values]
    title = _one_line(name)
    width = max(len(title) + MIN_PADDING, *map(len, texts), 0)
    pad = str.rjust if is_number else str.ljust
    return [f" {pad(text, width)} " for text in [title, *texts]], is_number


def _cell(value: JsonValue, *, has_floats: bool) -> str:
    if value is None:
        return ""
    if has_floats and isinstance(value, int | float):
        return _number(value)
    return _one_line(str(value) if isinstance(value, bool) else to_text(value))


def _number(value: float) -> str:
    """Return a number with 6 decimals, as RAGFlow writes it, or with all of its digits if that would change it."""
    text = f"{value}.000000" if isinstance(value, int) else f"{value:.6f}"
    return text if float(text) == value and len(text) <= MAX_DECIMAL_CHARS else to_text(value)


def _one_line(text: str) -> str:
    return " ".join(text.splitlines()).replace("|", "\\|")
