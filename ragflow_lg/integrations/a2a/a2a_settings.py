"""Settings of the agents of other servers. Reading them imports no HTTP client."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from ragflow_lg.server.settings.secret import Secret
from ragflow_lg.server.settings.sections import KeySection, web_address

if TYPE_CHECKING:
    from ragflow_lg.server.settings import Settings


class A2aSection(KeySection):
    """``[a2a.NAME]``: an agent of another server, by the name that canvases use."""

    url: Annotated[str, AfterValidator(web_address)]
    """Its address, below which its card is. All requests go to this server, whatever the card says."""
    headers: dict[str, Secret] = Field(default_factory=dict[str, Secret])
    """Further headers of its requests. ``api_key`` is sent as ``Authorization: Bearer KEY``."""
    timeout_s: Annotated[float, Field(gt=0)] = 600.0
    """How long a task may take. It is cancelled then."""

    def secrets(self) -> Iterable[str]:
        """Return all keys."""
        return (self.api_key.read(), *(value.read() for value in self.headers.values()))

    def all_headers(self) -> dict[str, str]:
        """Return the headers of all requests."""
        headers = {name: value.read() for name, value in self.headers.items()}
        key = self.api_key.read()
        return {**({"Authorization": f"Bearer {key}"} if key else {}), **headers}

    @property
    def host(self) -> str:
        """The host and port, as in ``[http] allow``."""
        parts = urlsplit(self.url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
        return f"{host}:{parts.port or (443 if parts.scheme.lower() == 'https' else 80)}"


A2aSections = dict[str, A2aSection]


def find_problem(settings: Settings, name: str) -> str:
    """Return what is wrong with the name of an agent, or ``""``."""
    if name in settings.section(A2aSections):
        return ""
    return f"There is no A2A agent {name[:80]!r}. Add [a2a.{name[:80]}] with its url to the settings."
