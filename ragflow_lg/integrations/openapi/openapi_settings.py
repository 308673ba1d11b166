"""Settings of APIs with an OpenAPI document. Reading them imports no HTTP client."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, ClassVar

from pydantic import Field, SecretStr

from ragflow_lg.server.settings.secret import Secret
from ragflow_lg.server.settings.sections import Section


class ApiSection(Section):
    """``[openapi."ID"]``: an API with an OpenAPI document, by the id that canvases use (``mcp_id``)."""

    document: SecretStr | dict[str, str]
    """The document, in JSON or YAML: its URL, or ``{ file = "PATH" }``."""
    url: SecretStr = SecretStr("")
    """The address of the API. Default: the first of ``servers`` in the document."""
    key: Secret = Field(default_factory=Secret)
    """What the API authenticates with, sent as ``securitySchemes`` say; for basic authentication ``USER:PASSWORD``."""
    headers: dict[str, Secret] = Field(default_factory=dict[str, Secret])
    """Headers of every request, including the one for a document at a URL."""
    allow: tuple[str, ...] | None = None
    """The operations that canvases are allowed to call. Default: all."""
    timeout_s: Annotated[float, Field(gt=0)] = 30.0
    """How long a call may take."""

    type: ClassVar[str] = "streamable-http"
    command: ClassVar[str] = ""
    # As RAGFlow's lists of servers show it, in which an author selects the operations.

    @property
    def document_file(self) -> str:
        """The path of the document, or ``""`` if it is at a URL."""
        return self.document.get("file", "") if isinstance(self.document, dict) else ""

    @property
    def document_url(self) -> str:
        """The URL of the document, or ``""`` if it is a file."""
        return "" if isinstance(self.document, dict) else self.document.get_secret_value()

    def secrets(self) -> Iterable[str]:
        """Return everything that may contain a key."""
        addresses = (self.document_url, self.url.get_secret_value())
        return (self.key.read(), *(header.read() for header in self.headers.values()), *addresses)


ApiSections = dict[str, ApiSection]
