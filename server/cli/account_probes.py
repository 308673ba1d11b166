"""What ``ragflow-lg doctor`` says of databases, mail servers and keys of tools in the settings."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from difflib import get_close_matches
from typing import TYPE_CHECKING

from ragflow_lg.base.errors import RagflowLgError
from ragflow_lg.checkpoints.check_result import CheckResult

if TYPE_CHECKING:
    from ragflow_lg.adapters.mail.smtp_mailer import SmtpMailer
    from ragflow_lg.adapters.sql.configured_databases import ConfiguredDatabases
    from ragflow_lg.server.settings import Settings


async def probe_accounts(settings: Settings) -> list[CheckResult]:
    """Query each database, and connect to each mail server, without sending anything."""
    if not settings.sql.connections and not settings.email.servers:
        return []
    from ragflow_lg.adapters.http.address_guard import AddressGuard
    from ragflow_lg.adapters.mail.smtp_mailer import SmtpMailer
    from ragflow_lg.adapters.sql.configured_databases import ConfiguredDatabases

    guard = AddressGuard(settings.http.allow)
    databases, mailer = (
        ConfiguredDatabases(settings.sql.settings(), guard),
        SmtpMailer(settings.email.settings(), guard),
    )
    sections = {
        **{f"sql.connections.{name}": section for name, section in settings.sql.connections.items()},
        **{f"email.servers.{name}": section for name, section in settings.email.servers.items()},
    }
    advice = "Set the environment variable {} to the password, or correct password_env."
    missing = [
        CheckResult(False, f"[{name}] has no password", advice.format(section.missing_variable))
        for name, section in sections.items()
        if section.missing_variable
    ]
    try:
        probes = [_probe_database(databases, name) for name in settings.sql.connections]
        mail_probes = [_probe_mail(mailer, name) for name in settings.email.servers]
        return [*missing, *await asyncio.gather(*probes, *mail_probes)]
    finally:
        await databases.aclose()


async def _probe_database(databases: ConfiguredDatabases, name: str) -> CheckResult:
    where = f"the database [sql.connections.{name}]"
    try:
        await databases.check(name)
    except RagflowLgError as error:
        return CheckResult(False, f"{where} cannot be reached", str(error))
    access = "may be changed" if databases.allows_writes(name) else "read-only"
    return CheckResult(True, f"{where} answers ({access})")


async def _probe_mail(mailer: SmtpMailer, name: str) -> CheckResult:
    where = f"the mail server [email.servers.{name}]"
    try:
        await mailer.check(name)
    except RagflowLgError as error:
        return CheckResult(False, f"{where} cannot be used", str(error))
    return CheckResult(True, f"{where} answers")


def probe_tool_keys(settings: Settings, services: Collection[str]) -> list[CheckResult]:
    """Report which tools have a key in the settings, and sections that are not one of the ``services`` of tools.

    `probe_models` reports variables that are not set.
    """
    named = sorted(name for name, section in settings.tools.items() if section.key_text())
    results = [CheckResult(True, f"the settings contain keys for {', '.join(named)}")] if named else []
    for name in settings.tools:
        if name.lower() not in services:
            near = get_close_matches(name.lower(), services, n=1)
            other = "`ragflow-lg components NAME` shows the section of a tool."
            advice = f"Did you mean [tools.{near[0]}]?" if near else other
            results.append(CheckResult(False, f"no tool uses the section [tools.{name}]", advice))
    return results
