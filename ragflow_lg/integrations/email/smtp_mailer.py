"""A mailer that speaks SMTP, always encrypted except with a server on this machine.

Source of the error texts: RAGFlow's ``agent/tools/email.py``.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from email.errors import MessageError
from email.message import EmailMessage
from email.parser import BytesHeaderParser
from email.policy import SMTP, SMTPUTF8
from email.utils import formataddr, formatdate, make_msgid
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from ragflow_lg.adapters.http.address_guard import AddressGuard, resolve_host
from ragflow_lg.base.errors import RagflowLgError, ServiceError, SettingsError, foreign_line
from ragflow_lg.base.extras import require
from ragflow_lg.checkpoints.check_result import CheckResult
from ragflow_lg.integrations.email.mail import Delivery, MailAccount, MailMessage, MailTarget
from ragflow_lg.integrations.email.mail_settings import EmailSection, MailServerSettings

if TYPE_CHECKING:
    import aiosmtplib

    from ragflow_lg.server.settings import Settings
    from ragflow_lg.services.services import Services

CONNECT_S = 10.0
COMMAND_S = 30.0
"""Time limit for the answer to one command."""
CLOSE_S = 5.0
TLS_PORT = 465
MAX_ERROR_CHARS = 500
_LOGIN_FAILED = "SMTP Authentication failed. Please check your SMTP username(email) and authorization code."


class SmtpMailer:
    """The `Mailer` of the settings. Each message has a connection of its own."""

    def __init__(
        self, servers: Mapping[str, MailServerSettings], guard: AddressGuard, *, tls: ssl.SSLContext | None = None
    ) -> None:
        """Initialize. The guard checks the addresses that canvases name; ``tls`` replaces the trusted certificates."""
        self._servers = servers
        self._guard = guard
        self._tls = tls

    def for_tenant(self, settings: Settings, services: Services) -> SmtpMailer:
        """Return a mailer with the servers and addresses of a tenant."""
        return make_mailer(settings)

    async def send(self, target: MailTarget, message: MailMessage) -> Delivery:
        """Send a message."""
        require("email", "Email")
        server = self._find(target)
        account = server.account
        sender, name = message.sender or server.sender, message.sender_name or server.sender_name
        mail = build_mail(message, sender, name)
        client = await self._reach(server, is_guarded=not isinstance(target, str))
        try:
            return await _deliver(client, account, mail, sender, [*message.to, *message.cc])
        finally:
            client.close()

    async def check(self, name: str) -> None:
        """Connect to a server in the settings, without logging in.

        Raises:
            SettingsError: if it is not in the settings, or aiosmtplib is missing.
            ServiceError: if it does not answer, or does not encrypt.
        """
        require("email", "Email")
        client = await self._reach(self._find(name), is_guarded=False)
        client.close()

    async def _reach(self, server: MailServerSettings, *, is_guarded: bool) -> aiosmtplib.SMTP:
        """Connect to a server and encrypt the connection."""
        account = server.account
        try:
            async with asyncio.timeout(CONNECT_S):
                return await self._open(server, await self._connect(server, is_guarded=is_guarded))
        except (TimeoutError, OSError, EOFError) as error:
            reason = f" ({_describe(error, account)})" if str(error) else ""
            text = f"Failed to connect to SMTP server {account.host}:{account.port}{reason}"
            raise ServiceError(text, is_retryable=not isinstance(error, ssl.SSLError)) from None

    def _find(self, target: MailTarget) -> MailServerSettings:
        if isinstance(target, MailAccount):
            return MailServerSettings(target)
        server = self._servers.get(target)
        if server is None:
            name = target[:80]
            raise SettingsError(f"There is no mail server {name!r}: add [email.servers.{name}] to the settings.")
        return server

    async def _connect(self, server: MailServerSettings, *, is_guarded: bool) -> socket.socket:
        """Connect to an address of the server; one that a canvas names must be allowed."""
        host, port = server.account.host, server.account.port
        addresses = await (self._guard.resolve if is_guarded else resolve_host)(host, port)
        if server.security == "none" and not all(ip_address(address).is_loopback for address, _ in addresses):
            raise SettingsError(f"The mail server {host!r} is not on this machine, so its security cannot be none.")
        loop = asyncio.get_running_loop()
        for number, (address, address_port) in enumerate(addresses, 1):
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            connection = socket.socket(family, socket.SOCK_STREAM)
            connection.setblocking(False)
            try:
                await loop.sock_connect(connection, (address, address_port))
            except BaseException as error:
                connection.close()
                if number == len(addresses) or not isinstance(error, OSError):
                    raise
            else:
                return connection
        raise OSError("it has no address")

    async def _open(self, server: MailServerSettings, connection: socket.socket) -> aiosmtplib.SMTP:
        """Greet the server and encrypt the connection."""
        import aiosmtplib

        account = server.account
        is_tls = server.security == "tls" or (server.security == "auto" and account.port == TLS_PORT)
        client = aiosmtplib.SMTP(
            hostname=account.host,
            sock=connection,
            timeout=COMMAND_S,
            use_tls=is_tls,
            start_tls=False,
            tls_context=self._context(),
            local_hostname="localhost",  # not the name of this machine
        )
        try:
            await client.connect()
            if not is_tls and server.security != "none":
                await client.ehlo()
                if not client.supports_extension("starttls"):
                    raise ServiceError(f"The mail server {account.host!r} does not offer STARTTLS; nothing was sent.")
                await client.starttls()
        except aiosmtplib.SMTPResponseException as error:
            client.close()
            raise _response_error(error, account, "refused the connection") from None
        except BaseException:
            client.close()
            raise
        return client

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context()
        return self._tls


def build_mail(message: MailMessage, sender: str, sender_name: str) -> EmailMessage:
    """Return a message as the mail libraries build it.

    Raises:
        ServiceError: if a header has a line break, or an address is not valid.
    """
    mail = EmailMessage(policy=SMTP)
    try:
        mail["From"] = formataddr((sender_name, sender))
        mail["To"] = ", ".join(message.to)
        if message.cc:
            mail["Cc"] = ", ".join(message.cc)
        mail["Subject"] = message.subject
        mail["Date"] = formatdate(localtime=False)
        mail["Message-ID"] = make_msgid(domain=sender.rpartition("@")[2] or "localhost")
        _check_headers(mail)
        mail.set_content(message.html, subtype="html", charset="utf-8", cte="base64")
    except (ValueError, IndexError, MessageError) as error:
        raise ServiceError(f"The e-mail cannot be written: {error}. Nothing was sent.") from None
    mail.make_alternative()
    return mail


def _check_headers(mail: EmailMessage) -> None:
    """Check that the headers are the same ones after they have been written.

    Older versions of Python decode the encoded words that they are given and write the line breaks in them. Between the
    long words of a name, they write a blank line, which ends the headers.
    """
    if any("\r" in str(value) or "\n" in str(value) for value in mail.values()):
        raise ValueError("a header has a line break in an encoded word")
    for policy in (SMTP, SMTPUTF8):
        written = BytesHeaderParser().parsebytes(mail.as_bytes(policy=policy))
        if written.keys() != mail.keys() or written.get_payload():
            raise ValueError("a header has words that are too long, or a line break in an encoded word")


async def _deliver(
    client: aiosmtplib.SMTP, account: MailAccount, mail: EmailMessage, sender: str, recipients: list[str]
) -> Delivery:
    """Log in and hand the message over."""
    import aiosmtplib

    is_handing_over = False
    try:
        if account.password:
            await client.login(account.username, account.password)
        is_handing_over = True
        refused, _ = await client.send_message(mail, sender=sender, recipients=recipients)
    except aiosmtplib.SMTPAuthenticationError as error:
        raise ServiceError(f"{_LOGIN_FAILED} ({error.code})") from None
    except aiosmtplib.SMTPRecipientsRefused as error:
        reasons = "; ".join(f"{one.recipient}: {one.code} {one.message}" for one in error.recipients)
        is_temporary = all(400 <= one.code < 500 for one in error.recipients)
        text = _cut(f"SMTP error occurred: no recipient was accepted: {reasons}", account)
        raise ServiceError(text, is_retryable=is_temporary) from None
    except aiosmtplib.SMTPResponseException as error:
        raise _response_error(error, account, "refused the e-mail") from None
    except (aiosmtplib.SMTPException, OSError, TimeoutError, ValueError) as error:
        text = _cut(f"SMTP error occurred: {_describe(error, account)}", account)
        if is_handing_over:
            raise ServiceError(f"{text}. It is unknown whether the e-mail was sent.") from None
        raise ServiceError(text, is_retryable=True) from None
    with suppress(Exception):  # the message has been accepted
        async with asyncio.timeout(CLOSE_S):
            await client.quit()
    return Delivery(
        {address: f"{answer.code} {answer.message}"[:MAX_ERROR_CHARS] for address, answer in refused.items()}
    )


def _response_error(error: Any, account: MailAccount, what: str) -> ServiceError:
    """Return the error for an answer of the server, which then has certainly not accepted the message."""
    text = _cut(f"SMTP error occurred: the server {what}: {error.code} {error.message}", account)
    return ServiceError(text, is_retryable=400 <= error.code < 500)


def _describe(error: BaseException, account: MailAccount) -> str:
    return _cut(str(error) or type(error).__name__, account)


def _cut(text: str, account: MailAccount) -> str:
    return foreign_line(text, [account.password], MAX_ERROR_CHARS)


def make_mailer(settings: Settings) -> SmtpMailer:
    """Return the mailer that the settings describe."""
    return SmtpMailer(settings.section(EmailSection).settings(), AddressGuard(settings.http.allow))


@asynccontextmanager
async def open_mailer(settings: Settings, services: Services) -> AsyncGenerator[SmtpMailer]:
    """Open the mailer, which connects whenever it is used."""
    yield make_mailer(settings)


async def probe_servers(settings: Settings) -> list[CheckResult]:
    """Connect to each mail server, without sending anything."""
    mailer, servers = make_mailer(settings), settings.section(EmailSection).servers
    return await asyncio.gather(*(_probe(mailer, name) for name in servers))


async def _probe(mailer: SmtpMailer, name: str) -> CheckResult:
    where = f"the mail server [email.servers.{name}]"
    try:
        await mailer.check(name)
    except RagflowLgError as error:
        return CheckResult(False, f"{where} cannot be used", str(error))
    return CheckResult(True, f"{where} answers")
