"""Email as a node and as a tool, with a real SMTP server."""

from typing import Any

from ragflow_lg.adapters.http.address_guard import AddressGuard
from ragflow_lg.integrations.email.email import email
from ragflow_lg.integrations.email.mail import MailAccount, Mailer
from ragflow_lg.integrations.email.mail_settings import MailServerSettings
from ragflow_lg.integrations.email.smtp_mailer import SmtpMailer
from tests.fakes.agents import play_agent, tool_calls
from tests.fakes.run import Result, bind, run_component
from tests.fakes.services import Reply, fake_services
from tests.fakes.smtp_server import PASSWORD, USER, SmtpServer, certificates, smtp_server
from tests.harness.rows import each_row


def account(server: SmtpServer) -> dict[str, Any]:
    """Return the parameters of a canvas with an account of its own."""
    fields = {"smtp_server": "localhost", "smtp_port": server.port, "email": USER, "password": PASSWORD}
    return {**fields, "sender_name": "Office", "delay_after_error": 0}


def mailer(server: SmtpServer) -> SmtpMailer:
    settings = MailServerSettings(MailAccount("localhost", server.port, USER, PASSWORD), USER, "Office")
    return SmtpMailer({"office": settings}, AddressGuard(["localhost"]), tls=certificates()[1])


async def run(server: SmtpServer, params: dict[str, Any], **options: Any) -> Result:
    services = fake_services(integrations={Mailer: mailer(server)})
    return await run_component(email, {**account(server), **params}, services=services, **options)


async def test_a_node_sends_an_email() -> None:
    params = {"to_email": "{begin@to}", "cc_email": "c@example.com", "subject": "For {begin@to}", "content": "<p>é</p>"}
    async with smtp_server() as server:
        result = await run(server, params, outputs={"begin": {"to": "a@example.com; Bo <b@example.com>"}})
    (received,) = server.received
    assert (result.error, result.outputs) == (None, {"success": True, "refused": {}})
    assert received.recipients == ["a@example.com", "b@example.com", "c@example.com"]
    assert str(received.message["Subject"]) == "For a@example.com; Bo <b@example.com>"
    assert PASSWORD not in str(result)


async def test_a_server_of_the_settings_needs_no_account_in_the_canvas() -> None:
    async with smtp_server() as server:
        services = fake_services(integrations={Mailer: mailer(server)})
        params = {"server": "office", "to_email": "a@example.com"}
        result = await run_component(email, params, services=services)
    assert result.outputs["success"] is True
    assert str(server.received[0].message["From"]) == "Office <office@example.com>"


async def test_nobody_to_write_to_is_no_success() -> None:
    async with smtp_server() as server:
        result = await run(server, {"to_email": ""})
    assert (result.error, result.outputs["success"], server.received) == (None, False, [])


@each_row(
    ("params", "reason"),
    [
        ({"subject": "a\r\nBcc: x@example.com"}, "subject must be one line"),
        ({"to_email": "a@example.com\nBcc: x@example.com"}, "to_email has a line break"),
        ({"cc_email": "a@example.com\r\nX: y"}, "cc_email has a line break"),
        ({"sender_name": "Me\nBcc: x@example.com"}, "sender_name must be one line"),
        ({"email": "me@example.com\nBcc: x@example.com"}, "email must be one line"),
        ({"to_email": "nobody"}, "'nobody', which is not an address"),
        ({"to_email": ",".join(f"p{n}@example.com" for n in range(101))}, "at most 100 recipients"),
    ],
)
async def test_headers_cannot_be_injected(params: dict[str, Any], reason: str) -> None:
    async with smtp_server() as server:
        result = await run(server, {"to_email": "a@example.com", "subject": "s", **params})
    assert result.error is not None
    assert reason in result.error
    assert (result.outputs["success"], server.received, server.logins) == (False, [], [])


async def test_what_was_certainly_not_sent_is_tried_again() -> None:
    async with smtp_server() as server:
        server.data_answers = ["451 later", "451 later"]
        result = await run(server, {"to_email": "a@example.com", "max_retries": 2})
        assert (result.outputs["success"], len(server.received)) == (True, 1)
        server.data_answers = ["451 later"]
        result = await run(server, {"to_email": "a@example.com"})
        assert (result.outputs["success"], len(server.received)) == (False, 1)
        server.data_answers = ["550 spam"]
        result = await run(server, {"to_email": "a@example.com", "max_retries": 2})
        assert (result.outputs["success"], len(server.received)) == (False, 1)


async def test_refused_recipients_are_listed() -> None:
    async with smtp_server() as server:
        server.refused = {"b@example.com": "550 no such user"}
        result = await run(server, {"to_email": "a@example.com, b@example.com"})
    assert result.outputs == {"success": True, "refused": {"b@example.com": "550 no such user"}}


async def test_a_missing_account_is_named_by_the_check_and_the_run() -> None:
    params = {"smtp_server": "", "email": "", "password": "", "sender_name": "", "to_email": "a@example.com"}
    (finding,) = email.lint(bind(email, params))
    assert (finding.code, finding.path) == ("account-missing", ("smtp_server",))
    async with smtp_server() as server:
        result = await run(server, params)
    assert result.error is not None
    assert "no smtp_server, email, password, sender_name" in result.error


async def test_an_agent_sends_an_email() -> None:
    first = tool_calls(("email_0", {"to_email": "a@example.com", "content": "Hi"}))
    async with smtp_server() as server:
        tools = [{"component_name": "Email", "name": "Mail", "params": {**account(server), "subject": ""}}]
        more = {"integrations": {Mailer: mailer(server)}}
        turn = await play_agent([first, Reply("Sent.")], {"tools": tools}, services=more)
    assert str(turn.outputs["content"]).endswith("Sent.")
    (received,) = server.received
    assert str(received.message["Subject"]) == "No Subject"
    assert PASSWORD not in str(turn.state)


async def test_email_runs_once_unless_the_canvas_says_otherwise() -> None:
    ctx: Any = None
    marks = [email.must_run_once(ctx, bind(email, {"once_only": once})) for once in (None, True, False)]
    assert marks == [True, True, False]
