"""The check that a statement only reads, with sqlglot's tree. What it does not know is refused.

It is one of two: where the database has read-only transactions, statements run in one. Those do not keep a statement
from reading files of the server, calling other servers, and taking locks.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


CHANGES_REFUSED = "For security reasons, INSERT, UPDATE, and DELETE statements are not supported."
"""RAGFlow's text for these three statements. Source: RAGFlow's ``agent/tools/exesql.py``."""
_COMMANDS = _words(
    "ALTER ANALYZE ATTACH BEGIN CALL CHECKPOINT CLOSE CLUSTER COMMENT COMMIT COPY CREATE DEALLOCATE DECLARE DELETE "
    "DETACH DISCARD DO DROP EXEC EXECUTE FETCH FLUSH GRANT HANDLER INSERT INSTALL KILL LISTEN LOAD LOCK MERGE NOTIFY "
    "OPTIMIZE PRAGMA PREPARE PURGE REASSIGN REFRESH REINDEX RELEASE RENAME REPAIR REPLACE RESET REVOKE ROLLBACK "
    "SAVEPOINT SET SHOW SHUTDOWN START TRUNCATE UNINSTALL UNLISTEN UNLOCK UPDATE USE VACUUM"
)
"""Words with which other statements begin. A text that begins with any other word is not SQL."""
_TSQL_COMMANDS = _words(
    "ALTER BACKUP BEGIN BULK CHECKPOINT COMMIT CREATE DBCC DECLARE DELETE DENY DISABLE DROP ENABLE EXEC EXECUTE GO "
    "GOTO GRANT IF INSERT KILL MERGE MOVE PRINT RAISERROR READTEXT RECEIVE RECONFIGURE RESTORE RETURN REVERT REVOKE "
    "ROLLBACK SAVE SEND SET SETUSER SHUTDOWN THROW TRUNCATE UPDATE UPDATETEXT USE WAITFOR WHILE WRITETEXT"
)
"""T-SQL needs nothing between two statements, so that a second one could stand where an alias can."""
_EXPLAIN_OPTIONS = _words("ANALYZE ANALYSE VERBOSE EXTENDED PARTITIONS QUERY PLAN")
_QUERIES = ("SELECT", "WITH", "VALUES", "TABLE", "(")
"""How queries begin."""
_TABLE = re.compile(r"(word|IDENTIFIER)( DOT (word|IDENTIFIER))*( word| IDENTIFIER| STRING)?")
"""A table, and perhaps the name or the pattern of its columns, as kinds of tokens."""
_PRAGMA_OF_TABLE = "table_info|table_xinfo|table_list|index_list|index_info|index_xinfo|foreign_key_list"
_PRAGMA = re.compile(
    rf"PRAGMA\s+(?:\w+\s*\.\s*)?(?:(?:{_PRAGMA_OF_TABLE})(?:\s*\(.*\))?"
    "|collation_list|function_list|compile_options|encoding|user_version|page_count|page_size)",
    re.IGNORECASE,
)
"""A PRAGMA that only reads. The argument of any other would be a new value."""

_REFUSED_FUNCTIONS: dict[str, str] = {
    "mysql": (
        "load_file get_lock release_lock release_all_locks nextval setval lastval master_pos_wait source_pos_wait "
        "wait_for_executed_gtid_set wait_until_sql_thread_after_gtids service_* load_rewrite_rules flush_rewrite_rules "
        "lambda_* set_firewall_mode read_firewall_* gen_dictionary_* sys_* lib_mysqludf* spider_* mroonga_* "
        "keyring_key_* audit_log_* group_replication_* asynchronous_connection_failover_* version_tokens_* "
        "mysql_firewall_* firewall_group_*"
    ),
    "sqlite": "load_extension writefile readfile edit fts3_tokenizer",
    "postgres": (
        "pg_* lo_* dblink* lowrite loread set_config nextval setval currval txid_current *_to_xml *_to_xmlschema "
        "*_to_xml_and_xmlschema ts_stat ts_rewrite crosstab* connectby xpath_table binary_upgrade* brin_* "
        "heap_force_* autoprewarm* gin_clean_pending_list run_command_on_* master_run_on_* postgres_fdw_* "
        "query_export_to_s3 table_import_from_s3 invoke http http_* http_get http_head http_delete blob_put schedule "
        "schedule_in_database unschedule alter_job add_job run_job replicate_ddl_command"
    ),
    "tsql": "openrowset openquery opendatasource openxml xp_* sp_*",
    "trino": "query execute",
    "": "http* admin_* qcmdexc wlm_set_conn_env mq* nextval",
}
"""Functions, by dialect, that read files, call servers, change something, or run a text as SQL."""
_COLUMNS = _words("http_* invoke schedule")
"""Which of them are ordinary names of columns too, and not functions of a single value."""
_HARMLESS_FUNCTIONS = _words(
    "pg_typeof pg_size_pretty pg_size_bytes pg_table_size pg_total_relation_size pg_relation_size pg_indexes_size "
    "pg_database_size pg_column_size pg_get_viewdef pg_get_constraintdef pg_get_indexdef pg_get_expr pg_get_userbyid "
    "pg_get_functiondef pg_get_triggerdef pg_get_serial_sequence pg_table_is_visible pg_type_is_visible "
    "pg_encoding_to_char pg_postmaster_start_time pg_sleep pg_backend_pid"
)
_DB2_MODULES = ("utl_", "dbms_")
"""How the names of modules begin whose functions write files, send mail and take locks."""


class NotSqlError(ValueError):
    """A text cannot be parsed as a statement, so nobody can say whether it only reads."""


@cache
def _tokenizer(dialect: str) -> Any:
    """Return sqlglot's tokenizer, which reads what follows words such as EXPLAIN as well, instead of as one text."""
    from sqlglot.dialects.dialect import Dialect

    own = Dialect.get_or_raise(dialect or None)
    plain: Any = type("PlainTokenizer", (own.tokenizer_class,), {"COMMANDS": set[Any]()})
    return plain(dialect=own)


def split_tokens(sql: str, dialect: str) -> list[list[Token]]:
    """Return the tokens of each statement; comments are none.

    Raises:
        NotSqlError: if the text is not SQL.
    """
    from sqlglot.errors import SqlglotError

    if "\0" in sql:
        raise NotSqlError("It is not SQL: it has a zero character.")
    statements: list[list[Token]] = [[]]
    try:
        for token in _tokenizer(dialect).tokenize(sql):
            if token.token_type.name == "SEMICOLON":
                statements.append([])
            else:
                statements[-1].append(token)
    except SqlglotError:
        raise NotSqlError("It cannot be read as SQL; perhaps a quote is not closed.") from None
    return [tokens for tokens in statements if tokens]


def check_statement(text: str, tokens: Sequence[Token], dialect: str) -> tuple[str, bool]:
    """Return why a statement is not a mere read, ``""`` if it is one, and whether it is a query.

    Raises:
        NotSqlError: if it cannot be parsed.
    """
    word = tokens[0].text.upper()
    if word in ("INSERT", "UPDATE", "DELETE"):
        return CHANGES_REFUSED, False
    for index, token in enumerate(tokens):
        kind, before = token.token_type.name, tokens[max(index - 2, 0)]
        is_escaped = kind == "IDENTIFIER" and before.text.upper() == "U" and before.start == token.start - 2
        is_read_differently = kind == "HEREDOC_STRING" or (kind == "BYTE_STRING" and "'" in token.text)
        if is_read_differently or (is_escaped and dialect == "postgres"):  # U&"\0061" is the name a
            return _not_a_read(f"{token.text[:20]!r} is quoted in a way that databases read differently"), False
    if word.split()[0] in ("EXPLAIN", "DESCRIBE", "DESC"):
        return _refusal_of_explain(text, dialect), False
    if word == "SHOW" and dialect in ("mysql", "postgres", "trino"):
        # the condition or the query of a SHOW may call any function
        condition = re.search(r"\bWHERE\b|\(", text, re.IGNORECASE)
        if condition is None:
            return "", False
        start = "SELECT 1 FROM " if condition[0] == "(" else "SELECT 1 "
        return _refusal_of_query(start + text[condition.start() :], dialect), False
    if word == "PRAGMA" and dialect == "sqlite":
        return "" if _PRAGMA.fullmatch(text) else _not_a_read("this PRAGMA is not run"), False
    if word in _COMMANDS or (dialect == "tsql" and word in _TSQL_COMMANDS):
        return _not_a_read(f"{word} statements are not run"), False
    if word not in _QUERIES:
        raise NotSqlError(f"It is not SQL: no statement begins with {tokens[0].text[:40]!r}.")
    refusal = _refusal_of_query(text, dialect)
    return refusal, not refusal


def _not_a_read(what: str) -> str:
    return f"For security reasons, only statements that read are supported: {what}."


def _refusal_of_explain(text: str, dialect: str) -> str:
    """Return why EXPLAIN is refused: after its options, there is neither a query nor the name of a table or column."""
    if dialect == "tsql":
        return _not_a_read("SQL Server takes EXPLAIN and DESCRIBE for names of procedures")
    tokens = split_tokens(text, dialect)[0]
    words = [*(text[token.start : token.end + 1].upper() for token in tokens), ""]
    first = 1
    while True:
        if words[first] in _EXPLAIN_OPTIONS:
            first += 1
        elif words[first] == "FORMAT" and words[first + 1]:
            first = min(first + (3 if words[first + 1] == "=" else 2), len(tokens))
        elif words[first] == "(" and words[first + 1] not in _QUERIES and ")" in words[first:]:
            first = words.index(")", first) + 1
        else:
            break
    kinds = [
        "word" if re.fullmatch(r"[\w$]+", text[token.start : token.end + 1]) else token.token_type.name
        for token in tokens[first:]
    ]
    if words[first] not in _COMMANDS.union(_QUERIES) and _TABLE.fullmatch(" ".join(kinds)):
        return ""
    return _refusal_of_query(text[tokens[first].start :] if words[first] else "", dialect)


def _refusal_of_query(text: str, dialect: str) -> str:
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        trees = sqlglot.parse(text, read=dialect or None)
    except (SqlglotError, RecursionError) as error:
        raise NotSqlError(_reason(error)) from error
    if isinstance(trees[0], exp.Paren):
        raise NotSqlError("It is not SQL: there is no query in the brackets.")
    if len(trees) != 1 or not isinstance(trees[0], exp.Query | exp.Values):
        return _not_a_read("this is not a single query")
    for node in trees[0].walk():
        if isinstance(node, exp.Insert | exp.Update | exp.Delete | exp.Merge | exp.Create | exp.Copy):
            return CHANGES_REFUSED
        if isinstance(
            node, exp.Command | exp.Into | exp.Lock | exp.Drop | exp.Alter | exp.Set | exp.Hint | exp.NextValueFor
        ):
            return _not_a_read(f"{type(node).__name__} is not supported in a query")
        is_named = isinstance(node, exp.Func | exp.Identifier | exp.Table | exp.Dot | exp.Column)
        if is_named and (name := _refused_name(node, dialect)):
            return _not_a_read(f"{name[:40]} is not supported")
    return ""


def _refused_name(node: Any, dialect: str) -> str:
    """Return the name of a function that may have effects, or of what has them without being called."""
    from sqlglot import exp

    own = node.name.lower()
    if isinstance(node, exp.Identifier):
        is_command = dialect == "tsql" and not node.quoted and own.upper() in _TSQL_COMMANDS
        return own if is_command or (not dialect and (own == "nextval" or own.startswith(_DB2_MODULES))) else ""
    if isinstance(node, exp.Table):
        is_pragma = dialect == "sqlite" and own.startswith("pragma_")
        return own if is_pragma and not _PRAGMA.fullmatch(own.replace("pragma_", "PRAGMA ", 1)) else ""
    refused, names = _REFUSED_FUNCTIONS.get(dialect, "").split(), [own]
    if isinstance(node, exp.Dot | exp.Column):  # PostgreSQL reads (a).f and a.f as f(a)
        is_call = dialect == "postgres" and (isinstance(node, exp.Dot) or node.table)
        refused = [pattern for pattern in refused if is_call and pattern not in _COLUMNS]
    elif not isinstance(node, exp.Anonymous | exp.AnonymousAggFunc):
        names = [name.lower() for name in node.sql_names()]
    for name in names:
        if name not in _HARMLESS_FUNCTIONS and any(fnmatchcase(name, pattern) for pattern in refused):
            return name
    return ""


def _reason(error: Exception) -> str:
    """Return sqlglot's reason as one line, without the colours of a terminal."""
    if isinstance(error, RecursionError):
        return "It is nested too deeply."
    text = re.sub(r"\x1b\[[0-9;]*m", "", re.sub(r"<Token .*?>", "the end", str(error), flags=re.DOTALL))
    return "It has a syntax error: " + " ".join(text.split())[:300]


# sqlglot logs what it cannot parse, which may contain values.
logging.getLogger("sqlglot").setLevel(logging.ERROR)
