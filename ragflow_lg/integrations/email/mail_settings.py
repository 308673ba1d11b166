"""Settings of mail servers, and their section. Reading them imports no SMTP client."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, ClassVar

from msgspec import Struct
from pydantic import Field

from ragflow_lg.integrations.email.mail import MailAccount, Security
from ragflow_lg.server.settings.sections import AccountSection, Section

if TYPE_CHECKING:
    from ragflow_lg.server.settings import Settings


class MailServerSettings(Struct, frozen=True):
    """A server in the settings."""

    account: MailAccount
    sender: str = ""
    sender_name: str = ""
    security: Security = "auto"


class MailServerSection(AccountSection):
    """``[email.servers.NAME]``: a mail server that canvases use by this name. Requires ``ragflow-lg[email]``."""

    host: str
    port: Annotated[int, Field(gt=0, lt=65536)] = 465
    username: str = ""
    """Default: ``sender``."""
    sender: str = ""
    """The address that messages come from, if the canvas sets none."""
    security: Security = "auto"
    """``tls`` from the first byte, ``starttls``, or ``none``, which needs a server on this machine. Default: ``tls`` on
    port 465, otherwise ``starttls``."""

    def settings(self) -> MailServerSettings:
        """Return the server."""
        account = MailAccount(self.host, self.port, self.username or self.sender, self.password.read())
        return MailServerSettings(account, self.sender, security=self.security)


class EmailSection(Section):
    """``[email]``: the mail servers of the component Email."""

    shared: ClassVar[str] = "servers"

    servers: dict[str, MailServerSection] = Field(default_factory=dict[str, MailServerSection])

    def secrets(self) -> Iterable[str]:
        """Return all passwords."""
        return (server.password.read() for server in self.servers.values())

    def settings(self) -> dict[str, MailServerSettings]:
        """Return the servers by name."""
        return {name: section.settings() for name, section in self.servers.items()}


def find_problem(settings: Settings, name: str) -> str:
    """Return what is wrong with the name of a server, or ``""``."""
    if name in settings.section(EmailSection).servers:
        return ""
    return f"There is no mail server {name[:80]!r}. Add [email.servers.{name[:80]}] to the settings."
