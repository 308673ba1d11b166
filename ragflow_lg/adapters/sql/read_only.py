"""The check that a statement only reads. What it does not know is refused.

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


class NotSqlError(ValueError):
    """A text cannot be parsed as a statement, so nobody can say whether it only reads."""


@cache
def _tokenizer(dialect: str) -> Any:
    """Return sqlglot's tokenizer, which reads what follows words such as EXPLAIN as well, instead of as one text."""
    from sqlglot.dialects.dialect import Dialect

    own = Dialect.get_or_raise(dialect or None)
    plain: Any = type("PlainTokenizer", (own.tokenizer_class,), {"COMMANDS": set[Any]()})
    return plain(dialect=own)


def read_tokens(sql: str, dialect: str) -> list[Token]:
    """Return the tokens of a text; comments are none.

    Raises:
        ValueError: if the text is not SQL.
    """
    from sqlglot.errors import SqlglotError

    try:
        return list(_tokenizer(dialect).tokenize(sql))
    except SqlglotError as error:
        raise ValueError(str(error)) from error


def kind_of(token: Token) -> str:
    """Return sqlglot's name for the type of a token."""
    return str(token.token_type.name)


def _word(token: Token) -> str:
    """Return an upper-case word or sign; ``""`` for what is quoted, and for numbers."""
    return "" if kind_of(token) in _QUOTED else token.text.upper()


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_QUOTED = _words(
    "BIT_STRING BYTE_STRING HEREDOC_STRING HEX_STRING IDENTIFIER NATIONAL_STRING NUMBER RAW_STRING STRING "
    "UNICODE_STRING"
)
CHANGES_REFUSED = "For security reasons, INSERT, UPDATE, and DELETE statements are not supported."
"""RAGFlow's text for these three statements. Source: RAGFlow's ``agent/tools/exesql.py``."""

_QUERY_WORDS = frozenset({"SELECT", "WITH", "VALUES", "TABLE", "("})
_EXPLAINING = frozenset({"EXPLAIN", "DESCRIBE", "DESC"})
_EXPLAIN_OPTIONS = _words(
    "ANALYZE ANALYSE VERBOSE EXTENDED PARTITIONS QUERY PLAN FORMAT = JSON TREE TRADITIONAL TEXT XML YAML"
)
_SHOWING = frozenset({"mysql", "postgres", "trino"})
_PRAGMAS_OF_TABLES = _words("table_info table_xinfo table_list index_list index_info index_xinfo foreign_key_list")
_PRAGMAS = _PRAGMAS_OF_TABLES | _words(
    "collation_list function_list compile_options encoding user_version page_count page_size"
)

_REFUSED_KINDS = frozenset({"HINT", "HEREDOC_STRING", "COLON_EQ", "BLOCK_START", "BLOCK_END"})
"""Optimizer hints, dollar quotes, assignments and template marks: databases differ in how they read them."""

_ALWAYS_REFUSED = _words(
    "INSERT UPDATE DELETE MERGE REPLACE TRUNCATE CREATE DROP ALTER GRANT REVOKE INTO OUTFILE DUMPFILE EXEC EXECUTE "
    "HANDLER INFILE VACUUM ATTACH DETACH REINDEX"
)
"""Words that stand for a change unless they are quoted, part of a longer name, or functions."""
_NEVER_FUNCTIONS = _words("INTO OUTFILE DUMPFILE EXEC EXECUTE DELETE UPDATE MERGE CREATE DROP ALTER GRANT")
_TSQL_REFUSED = _words(
    "SET USE DECLARE KILL BACKUP RESTORE DBCC BULK WAITFOR SHUTDOWN BEGIN COMMIT ROLLBACK SAVE GOTO PRINT RAISERROR "
    "THROW DENY RECONFIGURE UPDATETEXT WRITETEXT READTEXT ENABLE DISABLE IF WHILE RETURN GO CHECKPOINT SETUSER "
    "REVERT SEND RECEIVE MOVE OPENROWSET OPENQUERY OPENDATASOURCE OPENXML"
)
"""T-SQL needs nothing between two statements, so that a second one could follow an expression."""
_COMMAND_WORDS = _ALWAYS_REFUSED | _words(
    "ANALYZE BEGIN CALL CHECKPOINT CLOSE CLUSTER COMMENT COMMIT COPY DEALLOCATE DECLARE DISCARD DO FETCH FLUSH INSTALL "
    "KILL LISTEN LOAD LOCK NOTIFY OPTIMIZE PRAGMA PREPARE PURGE REASSIGN REFRESH RELEASE RENAME REPAIR RESET ROLLBACK "
    "SAVEPOINT SET SHOW SHUTDOWN START UNINSTALL UNLISTEN UNLOCK USE"
)
"""Words with which other statements begin. A text that begins with any other word is not SQL."""

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
        "query_export_to_s3 table_import_from_s3 invoke http http_* blob_put schedule schedule_in_database unschedule "
        "alter_job add_job run_job replicate_ddl_command"
    ),
    "tsql": "openrowset openquery opendatasource openxml xp_* sp_*",
    "trino": "query execute",
    "": "http* admin_* qcmdexc wlm_set_conn_env mq* nextval",
}
"""Functions, by dialect, that read files, call servers, change something, or run a text as SQL."""
_HARMLESS_FUNCTIONS = _words(
    "pg_typeof pg_size_pretty pg_size_bytes pg_table_size pg_total_relation_size pg_relation_size pg_indexes_size "
    "pg_database_size pg_column_size pg_get_viewdef pg_get_constraintdef pg_get_indexdef pg_get_expr pg_get_userbyid "
    "pg_get_functiondef pg_get_triggerdef pg_get_serial_sequence pg_table_is_visible pg_type_is_visible "
    "pg_encoding_to_char pg_postmaster_start_time pg_sleep pg_backend_pid"
)
_DB2_MODULES = ("utl_", "dbms_")
"""How the names of modules begin whose functions write files, send mail and take locks."""


def refusal_of(text: str, tokens: Sequence[Token], dialect: str) -> str:
    """Return why a statement is not a mere read; ``""`` if it is one.

    Raises:
        NotSqlError: if it cannot be parsed.
    """
    word = _word(tokens[0])
    if word in ("INSERT", "UPDATE", "DELETE"):
        return CHANGES_REFUSED
    if word in _EXPLAINING:
        return _refusal_of_explained(text, tokens, dialect)
    if word == "SHOW" and dialect in _SHOWING:
        return _refusal_of_shown(text, tokens, dialect)
    if word == "PRAGMA" and dialect == "sqlite":
        return _refusal_of_pragma(tokens)
    if word in _QUERY_WORDS:
        return _refusal_of_tokens(tokens, dialect) or _refusal_of_tree(text, dialect)
    if word in _COMMAND_WORDS or (dialect == "tsql" and word in _TSQL_REFUSED):
        return _not_a_read(f"{word} statements are not run")
    raise NotSqlError(f"It is not SQL: no statement begins with {tokens[0].text[:40]!r}.")


def _not_a_read(what: str) -> str:
    return f"For security reasons, only statements that read are supported: {what}."


def _refusal_of_explained(text: str, tokens: Sequence[Token], dialect: str) -> str:
    """Check what follows EXPLAIN or DESCRIBE: a name, or a read, which ANALYZE even runs."""
    at = 1
    if [_word(token) for token in tokens[1:2]] == ["("] and tokens[2:3] and _word(tokens[2]) not in _QUERY_WORDS:
        # EXPLAIN (ANALYZE, FORMAT JSON) SELECT …
        at = next((i + 1 for i, token in enumerate(tokens) if _word(token) == ")"), len(tokens))
    while at < len(tokens) and _word(tokens[at]) in _EXPLAIN_OPTIONS:
        at += 1
    rest = tokens[at:]
    if not rest:
        return _not_a_read("there is nothing to explain")
    if _word(rest[0]) in _QUERY_WORDS:
        return _refusal_of_tokens(rest, dialect) or _refusal_of_tree(text[rest[0].start :], dialect)
    is_name = all(re.fullmatch(r"[\w.%$ ]+", token.text) for token in rest)
    if not is_name or len(rest) > 6 or _word(rest[0]) in _ALWAYS_REFUSED:
        return _not_a_read("only tables and queries can be explained")
    return ""


def _refusal_of_shown(text: str, tokens: Sequence[Token], dialect: str) -> str:
    """Check the condition or the query of a SHOW, which may call any function."""
    at = next((index for index, token in enumerate(tokens) if _word(token) in ("WHERE", "(")), len(tokens))
    if at == len(tokens):
        return ""
    query = f"SELECT 1 {'' if _word(tokens[at]) == 'WHERE' else 'FROM '}{text[tokens[at].start :]}"
    return _refusal_of_tokens(tokens[at:], dialect) or _refusal_of_tree(query, dialect)


def _refusal_of_pragma(tokens: Sequence[Token]) -> str:
    """Check that a PRAGMA only reads: ``PRAGMA [schema.]name[(table)]``. Any other argument would be a new value."""
    words = [token.text.lower() for token in tokens[1:]]
    if words[1:2] == ["."]:
        words = words[2:]
    name = "".join(words[:1])
    if name not in _PRAGMAS or (len(words) > 1 and (name not in _PRAGMAS_OF_TABLES or words[1] != "(")):
        return _not_a_read("this PRAGMA is not run")
    return ""


def _refusal_of_tokens(tokens: Sequence[Token], dialect: str) -> str:
    """Check the words, because T-SQL puts nothing between statements: ``SELECT 1 DELETE`` might be an alias."""
    refused = _ALWAYS_REFUSED | _TSQL_REFUSED if dialect == "tsql" else _ALWAYS_REFUSED
    for index, token in enumerate(tokens):
        kind, word = kind_of(token), _word(token)
        before = tokens[index - 1].text if index else ""
        is_called = index + 1 < len(tokens) and tokens[index + 1].text == "("
        if kind in _REFUSED_KINDS or token.text == ":=":
            return _not_a_read(f"{token.text[:20]!r} is not supported")
        if kind == "BYTE_STRING" and "'" in token.text:
            return _not_a_read("quotes in an escaped string are not supported")
        if word in refused and before != "." and not (is_called and word not in _NEVER_FUNCTIONS):
            return _not_a_read(f"{word} is not supported in a query; quote it if it is a name")
    return ""


def _refusal_of_tree(text: str, dialect: str) -> str:
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
        if isinstance(node, exp.Command | exp.Into | exp.Lock | exp.Drop | exp.Alter | exp.Set | exp.NextValueFor):
            return _not_a_read(f"{type(node).__name__} is not supported in a query")
        if isinstance(node, exp.Func | exp.Identifier | exp.Table) and (name := _refused_name(node, dialect)):
            return _not_a_read(f"{name[:40]} is not supported")
    return ""


def _refused_name(node: Any, dialect: str) -> str:
    """Return the name of a function that may have effects, or of what has them without being called."""
    from sqlglot import exp

    names: list[str] = []
    if isinstance(node, exp.Anonymous | exp.AnonymousAggFunc):
        names = [node.name.lower()]
    elif isinstance(node, exp.Func):
        names = [name.lower() for name in node.sql_names()]
    refused = _REFUSED_FUNCTIONS.get(dialect, "").split()
    for name in names:
        if "\\" in name:
            return name  # PostgreSQL's U&"…" can spell any name
        if name not in _HARMLESS_FUNCTIONS and any(fnmatchcase(name, pattern) for pattern in refused):
            return name
    name = node.name.lower()
    if dialect == "sqlite" and isinstance(node, exp.Table) and name.startswith("pragma_"):
        return "" if name.removeprefix("pragma_") in _PRAGMAS else name
    if not dialect and isinstance(node, exp.Identifier) and (name == "nextval" or name.startswith(_DB2_MODULES)):
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
