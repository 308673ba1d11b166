"""Settings of mail servers. They are separate from them so that reading the settings imports no SMTP client."""

from __future__ import annotations

from msgspec import Struct

from ragflow_lg.services.mail import MailAccount, Security


class MailServerSettings(Struct, frozen=True):
    """A server in the settings."""

    account: MailAccount
    sender: str = ""
    sender_name: str = ""
    security: Security = "auto"
