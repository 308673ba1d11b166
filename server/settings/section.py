"""Base classes and validators for all sections."""

from __future__ import annotations

import os

from pydantic import BaseModel, ConfigDict, SecretStr


class Section(BaseModel):
    """Refuses unknown settings. Its errors do not contain values."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class KeySection(Section):
    """A section with an API key."""

    api_key: SecretStr | None = None
    api_key_env: str = ""
    """Environment variable that holds the key, instead of ``api_key``."""

    def key(self) -> SecretStr | None:
        """Return the key, or None."""
        if self.api_key is not None:
            return self.api_key
        value = os.environ.get(self.api_key_env, "") if self.api_key_env else ""
        return SecretStr(value) if value else None


def web_address(value: str) -> str:
    """Return an address without surrounding spaces.

    Raises:
        ValueError: If it does not begin with ``http://`` or ``https://``.
    """
    text = value.strip()
    if not text.lower().startswith(("http://", "https://")):
        raise ValueError("should be a web address that begins with http:// or https://")
    return text
