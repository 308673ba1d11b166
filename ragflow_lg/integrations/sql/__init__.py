"""ExeSQL: statements on databases, which only read unless the settings allow more."""

from ragflow_lg.component.integration import Integration, NeedKind, Service

_SECTION = """\
[sql.connections.{key}]
db_type = "postgres"
host = "…"
database = "…"
username = "…"
password = {{ env = "{variable}_PASSWORD" }}
"""

INTEGRATION = Integration(
    __name__,
    components={"ExeSQL": ".exe_sql"},
    sections={"sql": ".sql_settings:SqlSection"},
    services=(Service("ragflow_lg.services.databases:Databases", ".configured_databases:open_databases", "databases"),),
    needs={"database": NeedKind("database connection", "account-missing", ".sql_settings:find_problem", _SECTION)},
    probe=".configured_databases:probe_databases",
)
