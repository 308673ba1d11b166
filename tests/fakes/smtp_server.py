"""A real SMTP server (aiosmtpd) on 127.0.0.1, with its own certificate authority.

Sources: https://www.rfc-editor.org/rfc/rfc5321 (commands and replies), https://www.rfc-editor.org/rfc/rfc3207
(STARTTLS), https://aiosmtpd.aio-libs.org/
"""

import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from functools import lru_cache
from typing import Any

import trustme
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, Envelope, LoginPassword, Session

from tests.harness.database_servers import free_port

USER, PASSWORD = "office@example.com", "mail-password-1"


@lru_cache(maxsize=1)
def certificates() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return the contexts of a server ``localhost`` and of a client that trusts it."""
    authority: Any = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(server)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(client)
    return server, client


@dataclass
class Received:
    """A message that the server accepted."""

    sender: str
    recipients: list[str]
    message: EmailMessage
    is_encrypted: bool


@dataclass
class SmtpServer:
    """What the server received, and how it answers: ``answers`` are called before a message is accepted."""

    port: int = 0
    received: list[Received] = field(default_factory=list[Received])
    logins: list[str] = field(default_factory=list[str])
    refused: dict[str, str] = field(default_factory=dict[str, str])
    """Answers to recipients, by address."""
    data_answers: list[str] = field(default_factory=list[str])
    """Answers to messages, one after the other; afterwards messages are accepted."""
    on_data: Callable[[], None] | None = None

    async def handle_RCPT(
        self, server: Any, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address in self.refused:
            return self.refused[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Session, envelope: Envelope) -> str:
        if self.on_data is not None:
            self.on_data()
        if self.data_answers:
            return self.data_answers.pop(0)
        content = envelope.content
        assert isinstance(content, bytes)
        message = message_from_bytes(content, _class=EmailMessage, policy=default)
        assert isinstance(message, EmailMessage)
        is_encrypted = session.ssl is not None or isinstance(
            server.transport.get_extra_info("sslcontext"), ssl.SSLContext
        )
        self.received.append(Received(envelope.mail_from or "", list(envelope.rcpt_tos), message, is_encrypted))
        return "250 OK"

    def authenticate(self, server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        assert isinstance(data, LoginPassword)
        self.logins.append(data.login.decode())
        is_right = (data.login, data.password) == (USER.encode(), PASSWORD.encode())
        return AuthResult(success=is_right, handled=False)


@asynccontextmanager
async def smtp_server(kind: str = "starttls", *, asks_password: bool = True) -> AsyncGenerator[SmtpServer]:
    """Run a server: ``tls`` from the first byte, with ``starttls``, or ``plain``."""
    state = SmtpServer()
    server_context, _ = certificates()
    options: dict[str, Any] = {"hostname": "127.0.0.1", "port": free_port()}
    if asks_password:
        options |= {
            "authenticator": state.authenticate,
            "auth_required": kind == "starttls",
            "auth_require_tls": kind == "starttls",
        }
    if kind == "tls":
        options |= {"ssl_context": server_context}
    if kind == "starttls":
        options |= {"tls_context": server_context, "require_starttls": True}
    controller = Controller(state, **options)
    controller.start()
    state.port = options["port"]
    try:
        yield state
    finally:
        controller.stop()
