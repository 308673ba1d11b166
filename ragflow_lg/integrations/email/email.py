"""Email: send an e-mail."""

from __future__ import annotations

import asyncio
import re
from typing import Annotated

from pydantic import BaseModel, Field

from ragflow_lg.base.errors import ComponentError, ServiceError
from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.named_account import AccountText, NamedAccount
from ragflow_lg.component.spec import ComponentOutputs, OnceParams, ToolExample, ToolResult
from ragflow_lg.component.tool import QueryText, RunContext, tool
from ragflow_lg.dsl.redaction import SECRET
from ragflow_lg.integrations.email.mail import MailAccount, Mailer, MailMessage, MailTarget

LIMIT_S = 60.0
MAX_RECIPIENTS = 100
NO_SUBJECT, NO_CONTENT = "No Subject", "No content provided"
MAX_HEADER_CHARS = 2_000
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_ADDRESS = re.compile(r"[^\s<>()\[\]\\,;:\"@]+@[^\s<>()\\,;:\"@]+")


ACCOUNT = NamedAccount("Email", "server", "a mail server", "email.servers", "mail_server")


class Params(OnceParams):
    """Parameters of Email: an account, or the name of a server in the settings."""

    server: AccountText = ""
    """Name of a mail server in the settings, ``[email.servers.NAME]``, instead of an account in the canvas."""
    smtp_server: AccountText = ""
    smtp_port: Annotated[int, Field(gt=0, lt=65536)] = 465
    """465 is encrypted from the first byte; on other ports the server must offer STARTTLS."""
    email: AccountText = ""
    """The address of the sender."""
    smtp_username: AccountText = ""
    """Default: ``email``."""
    password: Annotated[AccountText, SECRET] = Field("", repr=False)
    sender_name: AccountText = ""


class Arguments(BaseModel):
    """The arguments of a call."""

    to_email: QueryText = Field("", description="The addresses of the recipients, separated by commas.")
    cc_email: QueryText = Field("", description="The addresses of those who get a copy, separated by commas.")
    content: QueryText = Field(NO_CONTENT, description="The text of the e-mail, in HTML.")
    subject: QueryText = Field(NO_SUBJECT, description="The subject.")


class Outputs(ComponentOutputs):
    """``success``, and ``refused``: the recipients that the server refused, with its reasons."""

    success: bool = False
    refused: dict[str, str] = Field(default_factory=dict[str, str])


def _missing(params: Params) -> list[str]:
    return ACCOUNT.missing(params, ("smtp_server", "email", "password", "sender_name"))


def _limit_s(params: Params) -> float:
    retries = params.max_retries or 0
    return LIMIT_S * (1 + retries) + retries * (params.delay_after_error or 0.0)


@tool(
    "Email",
    function="email",
    params=Params,
    arguments=Arguments,
    outputs=Outputs,
    needs="to_email",
    defaults={"to_email": "{sys.query}", "cc_email": "", "content": "", "subject": ""},
    blank=ToolResult("", {"success": False}),
    description="Send an e-mail in HTML to one or several people.",
    source="agent/tools/email.py",
    timeout_s=_limit_s,
    effects="writes",
    lint=lambda params: ACCOUNT.findings(_missing(params)),
    requires=ACCOUNT.requirements,
    example=ToolExample(
        "[email.servers.NAME]; without it, the canvas contains the account",
        {"server": "NAME"},
        {"to_email": "anna@example.com", "subject": "Your question", "content": "<p>{sys.query}</p>"},
    ),
)
async def email(ctx: RunContext, params: Params, arguments: Arguments) -> ToolResult:
    """Send the e-mail. An attempt is repeated only if the message was certainly not sent."""
    ctx.partial["success"] = False
    ACCOUNT.check(_missing(params), ctx.node.id)
    if ctx.owner != ctx.node.id:  # a model leaves out what it does not know
        texts = {"subject": arguments.subject or NO_SUBJECT, "content": arguments.content or NO_CONTENT}
        arguments = arguments.model_copy(update=texts)
    message = _message(params, arguments)
    account = MailAccount(
        params.smtp_server.strip(), params.smtp_port, (params.smtp_username or params.email).strip(), params.password
    )
    target: MailTarget = ACCOUNT.name(params) or account
    retries = params.max_retries or 0
    while True:
        try:
            delivery = await ctx.services.of(Mailer).send(target, message)
        except ServiceError as error:
            if not (error.is_retryable and retries):
                raise
        else:
            refused: dict[str, JsonValue] = dict(delivery.refused)
            return ToolResult(
                {"success": True, "refused": refused} if refused else True, {"success": True, "refused": refused}
            )
        retries -= 1
        await asyncio.sleep(params.delay_after_error or 0.0)


def _message(params: Params, arguments: Arguments) -> MailMessage:
    """Return the message."""
    headers = {"email": params.email, "sender_name": params.sender_name, "subject": arguments.subject}
    for name, value in headers.items():
        if _CONTROL.search(value) or len(value) > MAX_HEADER_CHARS:
            raise ComponentError(f"{name} must be one line of at most {MAX_HEADER_CHARS:,} characters.")
    to, copies = _addresses("to_email", arguments.to_email), _addresses("cc_email", arguments.cc_email)
    if len(to) + len(copies) > MAX_RECIPIENTS:
        raise ComponentError(f"An e-mail may have at most {MAX_RECIPIENTS} recipients.")
    if not to:
        raise ComponentError("to_email has no address.")
    return MailMessage(
        params.email.strip(), params.sender_name.strip(), to, copies, arguments.subject, arguments.content
    )


def _addresses(name: str, text: str) -> tuple[str, ...]:
    """Return the addresses in a text, without names."""
    if _CONTROL.search(text.strip()):
        raise ComponentError(f"{name} has a line break or another control character; separate addresses by commas.")
    parts = [part.strip() for part in re.split("[,;]", text) if part.strip()]
    addresses = [part[part.find("<") + 1 : -1] if part.endswith(">") else part for part in parts]
    wrong = next((address for address in addresses if not _ADDRESS.fullmatch(address)), None)
    if wrong is not None:
        raise ComponentError(f"{name} contains {wrong[:80]!r}, which is not an address.")
    return tuple(dict.fromkeys(addresses))
