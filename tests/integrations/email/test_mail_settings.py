"""The section of mail servers, and what doctor says of them."""

from ragflow_lg.integrations.email.mail import MailAccount
from ragflow_lg.integrations.email.mail_settings import EmailSection
from ragflow_lg.integrations.email.smtp_mailer import probe_servers
from ragflow_lg.server.settings import Settings
from tests.fakes.smtp_server import smtp_server


def test_a_mail_server_uses_its_sender_as_the_user() -> None:
    office = {"host": "smtp", "sender": "office@example.com", "password": "secret-password-2"}
    read = Settings.model_validate({"email": {"servers": {"office": office}}})
    server = read.section(EmailSection).settings()["office"]
    assert server.account == MailAccount("smtp", 465, "office@example.com", "secret-password-2")
    assert (server.sender, server.security) == ("office@example.com", "auto")
    assert "secret-password-2" in read.secrets
    assert "secret-password-2" not in repr(read) + repr(server)


async def test_mail_servers_are_greeted_and_get_no_message() -> None:
    async with smtp_server("plain") as server:
        account = {"host": "127.0.0.1", "port": server.port, "sender": "a@example.com"}
        section = {"plain": {**account, "security": "none"}, "strict": account, "gone": {**account, "port": 1}}
        plain, strict, gone = await probe_servers(Settings.model_validate({"email": {"servers": section}}))
    assert (plain.is_well, plain.what) == (True, "the mail server [email.servers.plain] answers")
    assert (strict.is_well, gone.is_well) == (False, False)
    assert "cannot be used" in strict.what
