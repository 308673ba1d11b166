"""Mail servers that canvases send e-mail through: what a message is, and the Protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, Protocol, TypeAlias

from msgspec import Struct

Security: TypeAlias = Literal["auto", "tls", "starttls", "none"]
"""How a connection is encrypted; ``auto`` is ``tls`` on port 465, otherwise ``starttls``."""


class MailAccount(Struct, frozen=True):
    """A mail server and an account for it, as a canvas writes them."""

    host: str
    port: int
    username: str
    password: str = ""

    def __repr__(self) -> str:
        """Hide the password."""
        return f"MailAccount({self.host}:{self.port})"


MailTarget: TypeAlias = MailAccount | str
"""An account of a canvas, or the name of a server in the settings."""


class MailMessage(Struct, frozen=True):
    """A message in HTML. A sender that is ``""`` is the one of the server in the settings."""

    sender: str
    sender_name: str
    to: tuple[str, ...]
    cc: tuple[str, ...]
    subject: str
    html: str


class Delivery(NamedTuple):
    """What the server said: the recipients that it refused, with its reasons. It accepted all others."""

    refused: Mapping[str, str]


class Mailer(Protocol):
    """Sends e-mail."""

    async def send(self, target: MailTarget, message: MailMessage) -> Delivery:
        """Send a message.

        Raises:
            SettingsError: if the server is not in the settings, or a package is missing.
            ServiceError: if it was not sent, or if this is unknown; ``is_retryable`` says that it was certainly not.
        """
        ...
