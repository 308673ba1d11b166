"""Settings of APIs with an OpenAPI document. Reading them imports no HTTP client."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Annotated, ClassVar

from pydantic import Field, SecretStr, ValidationInfo, field_validator

from ragflow_lg.dsl.redaction import is_secret_name
from ragflow_lg.server.settings.secret import Secret
from ragflow_lg.server.settings.sections import Section, web_address


def check_address(value: str, *, is_base: bool = True) -> str:
    """Return a web address; to one that is a base, paths are added.

    Raises:
        ValueError: if it is none, or a base with a query or fragment.
    """
    text = web_address(value)
    if is_base and ("?" in text or "#" in text):
        raise ValueError("should have no query and no fragment")
    return text


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

    @field_validator("document", "url")
    @classmethod
    def _is_address(cls, value: SecretStr | dict[str, str], info: ValidationInfo) -> SecretStr | dict[str, str]:
        if isinstance(value, dict) or not value:
            return value
        return SecretStr(check_address(value.get_secret_value(), is_base=info.field_name == "url"))

    @property
    def document_file(self) -> str:
        """The path of the document, or ``""`` if it is at a URL."""
        return self.document.get("file", "") if isinstance(self.document, dict) else ""

    @property
    def document_url(self) -> str:
        """The URL of the document, or ``""`` if it is a file."""
        return "" if isinstance(self.document, dict) else self.document.get_secret_value()

    def keys(self) -> Iterable[str]:
        """Return the key, its spellings for basic authentication, and the headers that are secret."""
        key = self.key.read()
        yield from (key, base64.b64encode(key.encode()).decode(), key.partition(":")[2])
        for name, value in self.headers.items():
            if is_secret_name(name) or value != Secret(value.read()):  # a variable or a file
                yield value.read()

    def secrets(self) -> Iterable[str]:
        """Return everything that may contain a key."""
        addresses = (self.document_url, self.url.get_secret_value())
        return (self.key.read(), *(header.read() for header in self.headers.values()), *addresses)


ApiSections = dict[str, ApiSection]
