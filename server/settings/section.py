"""What all sections of the settings have in common."""

from __future__ import annotations

import os

from pydantic import BaseModel, ConfigDict, SecretStr

__all__ = ["KeySection", "Section", "web_address"]


class Section(BaseModel):
    """Keeps to the settings it knows; an error shows no value."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class KeySection(Section):
    """A section of something that a key opens."""

    api_key: SecretStr | None = None
    api_key_env: str = ""
    """Environment variable that holds the key, in place of ``api_key``."""

    def key(self) -> SecretStr | None:
        """Give the key, or None if there is none."""
        if self.api_key is not None:
            return self.api_key
        value = os.environ.get(self.api_key_env, "") if self.api_key_env else ""
        return SecretStr(value) if value else None


def web_address(value: str) -> str:
    """Give an address without blanks around it.

    Raises:
        ValueError: if it does not begin with ``http://`` or ``https://``.
    """
    text = value.strip()
    if not text.lower().startswith(("http://", "https://")):
        raise ValueError("should be a web address that begins with http:// or https://")
    return text
