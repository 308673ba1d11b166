"""Email: a tool that sends e-mail through SMTP servers."""

from ragflow_lg.component.integration import Integration, NeedKind, Service

_SECTION = """\
[email.servers.{key}]
host = "…"
username = "…"
password = {{ env = "{variable}_PASSWORD" }}
"""

INTEGRATION = Integration(
    __name__,
    components={"Email": ".email"},
    sections={"email": ".mail_settings:EmailSection"},
    services=(Service(".mail:Mailer", ".smtp_mailer:open_mailer", recorded_as="mailer"),),
    needs={"mail_server": NeedKind("mail server", "account-missing", ".mail_settings:find_problem", _SECTION)},
    probe=".smtp_mailer:probe_servers",
)
