"""Sending e-mail to a real SMTP server."""

import asyncio
import ssl
from email import message_from_bytes
from email.policy import SMTP
from typing import Any

import pytest

from ragflow_lg.adapters.http.address_guard import AddressGuard
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.integrations.email.mail import MailAccount, MailMessage, Security
from ragflow_lg.integrations.email.mail_settings import MailServerSettings
from ragflow_lg.integrations.email.smtp_mailer import SmtpMailer, build_mail
from tests.fakes.smtp_server import PASSWORD, USER, SmtpServer, certificates, smtp_server
from tests.harness.rows import each_row

MESSAGE = MailMessage(USER, "Büro", ("ann@example.com",), (), "Grüße, 世界", "<p>Zwei Äpfel</p>")


def mailer(
    server: SmtpServer,
    security: Security = "starttls",
    *,
    password: str = PASSWORD,
    host: str = "localhost",
    tls: ssl.SSLContext | None = None,
) -> SmtpMailer:
    """Return a mailer with the server under the name ``office``."""
    account = MailAccount(host, server.port, USER, password)
    settings = {"office": MailServerSettings(account, USER, "Office", security)}
    return SmtpMailer(settings, AddressGuard(["localhost"]), tls=tls or certificates()[1])


@each_row("kind", ["starttls", "tls"])
async def test_a_message_is_encrypted_and_sent_after_a_login(kind: Any) -> None:
    async with smtp_server(kind) as server:
        delivery = await mailer(server, kind).send("office", MESSAGE)
    (received,) = server.received
    assert (delivery.refused, server.logins) == ({}, [USER])
    assert (received.sender, received.recipients, received.is_encrypted) == (USER, ["ann@example.com"], True)
    assert received.message.get_content_type() == "multipart/alternative"
    (part,) = received.message.iter_parts()
    assert (part.get_content_type(), part.get_content().strip()) == ("text/html", "<p>Zwei Äpfel</p>")
    headers = {name: str(received.message[name]) for name in ("From", "To", "Subject", "Cc")}
    assert headers == {
        "From": "Büro <office@example.com>",
        "To": "ann@example.com",
        "Subject": "Grüße, 世界",
        "Cc": "None",
    }
    assert received.message["Date"]
    assert str(received.message["Message-ID"]).endswith("@example.com>")


async def refused(server: SmtpServer, **options: Any) -> ServiceError:
    with pytest.raises(ServiceError) as caught:
        await mailer(server, **options).send("office", MESSAGE)
    return caught.value


async def test_a_wrong_password_is_reported_without_it() -> None:
    async with smtp_server() as server:
        error = await refused(server, password="a wrong password")
    assert str(error).startswith("SMTP Authentication failed. Please check your SMTP username(email)")
    assert ("wrong" in str(error), error.is_retryable, server.received) == (False, False, [])


async def test_a_refused_message_is_certainly_not_sent() -> None:
    async with smtp_server() as server:
        for answer, is_retryable in (("550 spam", False), ("451 try again later", True), ("554 5.7.1 no", False)):
            server.data_answers = [answer]
            error = await refused(server)
            assert (answer[:3] in str(error), error.is_retryable, server.received) == (True, is_retryable, [])
        server.refused = {"ann@example.com": "550 no such user"}
        assert "no recipient was accepted: ann@example.com: 550 no such user" in str(await refused(server))


async def test_a_connection_that_breaks_after_the_text_leaves_the_result_unknown() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 hi\r\n")
        while line := await reader.readline():
            if line == b".\r\n":
                break
            command = line[:4].upper()
            answers = {b"EHLO": b"250 hi\r\n", b"MAIL": b"250 ok\r\n", b"RCPT": b"250 ok\r\n", b"DATA": b"354 go\r\n"}
            writer.write(answers.get(command, b""))
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as listener:
        server = SmtpServer(listener.sockets[0].getsockname()[1])
        error = await refused(server, security="none", password="")
    assert "It is unknown whether the e-mail was sent." in str(error)
    assert not error.is_retryable


async def test_a_server_without_starttls_gets_nothing() -> None:
    async with smtp_server("plain", asks_password=False) as server:
        error = await refused(server)
        assert "does not offer STARTTLS; nothing was sent" in str(error)
        await mailer(server, "none", password="").send("office", MESSAGE)
    assert [received.is_encrypted for received in server.received] == [False]
    assert server.logins == []


async def test_a_server_elsewhere_is_never_used_without_encryption() -> None:
    account = MailAccount("192.0.2.1", 25, "", "")
    servers = {"office": MailServerSettings(account, USER, "", "none")}
    with pytest.raises(SettingsError, match="is not on this machine"):
        await SmtpMailer(servers, AddressGuard()).send("office", MESSAGE)


@each_row("kind", ["starttls", "tls"])
async def test_a_certificate_that_is_not_trusted_is_refused(kind: Any) -> None:
    async with smtp_server(kind) as server:
        error = await refused(server, security=kind, tls=ssl.create_default_context())
        assert "ertificate" in str(error)
        error = await refused(server, security=kind, host="127.0.0.1")  # another name than the certificate's
        assert "ertificate" in str(error)
    assert (server.received, server.logins) == ([], [])


async def test_a_canvas_reaches_only_servers_that_are_allowed() -> None:
    async with smtp_server() as server:
        target = MailAccount("localhost", server.port, USER, PASSWORD)
        await mailer(server).send(target, MESSAGE)
        assert len(server.received) == 1
        closed = SmtpMailer({}, AddressGuard(), tls=certificates()[1])
        with pytest.raises(ServiceError, match="not on the public internet"):
            await closed.send(target, MESSAGE)
    assert len(server.received) == 1
    assert PASSWORD not in repr(target)


async def test_a_server_that_cannot_be_reached_may_be_tried_again() -> None:
    error = await refused(SmtpServer(9))
    assert str(error).startswith("Failed to connect to SMTP server localhost:9")
    assert error.is_retryable


async def test_an_unknown_server_and_a_missing_package_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match=r"\[email\.servers\.other\]"):
        await SmtpMailer({}, AddressGuard()).send("other", MESSAGE)

    def find_nothing(name: str) -> None:
        return None

    monkeypatch.setattr("ragflow_lg.base.extras.find_spec", find_nothing)
    with pytest.raises(SettingsError, match=r"Email needs aiosmtplib\. Install it with: pip install '.*\[email\]'"):
        await SmtpMailer({}, AddressGuard()).send("other", MESSAGE)


@each_row(
    "message",
    [
        MailMessage("a@b.example\r\nBcc: x@y.example", "", ("a@example.com",), (), "s", "t"),
        MailMessage(USER, "Me\nBcc: x@y.example", ("a@example.com",), (), "s", "t"),
        MailMessage(USER, "", ("a@example.com\r\nBcc: x@y.example",), (), "s", "t"),
        MailMessage(USER, "", ("a@example.com",), ("b@example.com\nX: y",), "s", "t"),
        MailMessage(USER, "", ("a@example.com",), (), "s\r\nBcc: x@y.example", "t"),
        MailMessage(USER, "", ("a@example.com",), (), "=?x-unknown?q?=0D=0ABcc:x@y.example?=", "t"),
        MailMessage(USER, f"{'x' * 80}hello {'x' * 80}", ("a@example.com",), (), "s", "t"),
    ],
)
async def test_a_line_break_in_a_header_is_refused(message: MailMessage) -> None:
    async with smtp_server() as server:
        with pytest.raises(ServiceError, match="Nothing was sent"):
            await mailer(server).send("office", message)
    assert (server.received, server.logins) == ([], [])


@each_row("subject", ["=?utf-8?q?gr=C3=BCn?=", "茶　と緑茶" * 40, "grün\u00a0und blau", 'a, "b" <c> (d'])
def test_other_subjects_are_kept(subject: str) -> None:
    mail = build_mail(MailMessage(USER, "Ännchen, Büro", ("a@example.com",), (), subject, "t"), USER, "Ännchen, Büro")
    written = message_from_bytes(mail.as_bytes(), policy=SMTP)
    assert written["Subject"] == {"=?utf-8?q?gr=C3=BCn?=": "grün"}.get(subject, subject)
    assert written["From"] == f'"Ännchen, Büro" <{USER}>'
