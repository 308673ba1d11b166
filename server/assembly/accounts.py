"""The databases, mail servers and speech models of the settings, and the rule for those that canvases name."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragflow_lg.adapters.mail.smtp_mailer import SmtpMailer
    from ragflow_lg.adapters.sql.configured_databases import ConfiguredDatabases
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.services.workers import Workers


def connect_accounts(settings: Settings, workers: Workers) -> tuple[ConfiguredDatabases, SmtpMailer]:
    """Return databases and a mailer, which connect when they are first used. The caller closes the databases."""
    from ragflow_lg.adapters.http.address_guard import AddressGuard
    from ragflow_lg.adapters.mail.smtp_mailer import SmtpMailer
    from ragflow_lg.adapters.sql.configured_databases import ConfiguredDatabases

    guard = AddressGuard(settings.http.allow)
    return ConfiguredDatabases(settings.sql.settings(), guard, workers), SmtpMailer(settings.email.settings(), guard)


@asynccontextmanager
async def open_accounts(settings: Settings, workers: Workers) -> AsyncGenerator[dict[str, Any]]:
    """Yield them as fields of `ragflow_lg.services.services.Services`."""
    from ragflow_lg.server.assembly.speech_services import open_speech

    databases, mailer = connect_accounts(settings, workers)
    try:
        async with open_speech(settings) as speech:
            yield {"databases": databases, "mailer": mailer, "speech": speech}
    finally:
        await databases.aclose()
