"""The keys with which the server encrypts what it stores."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated

from pydantic import Field

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.settings.secret import Secret
from ragflow_lg.server.settings.sections import Section
from ragflow_lg.services.encryption import KEY_BYTES, EncryptionKey

_ADVICE = "Only for an id that has encrypted nothing yet, create one with: openssl rand -base64 32"


class EncryptionKeySection(Section):
    """``[[encryption_keys]]``: the first key encrypts, the others decrypt what is still encrypted with them."""

    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,32}$")]
    """Its name, which stored data contains. A new key needs a new name."""
    key: Secret = Secret()
    """32 random bytes in Base64: ``"TEXT"``, ``{ env = "VARIABLE" }`` or ``{ file = "PATH" }``."""

    def to_key(self) -> EncryptionKey:
        """Return the key.

        Raises:
            SettingsError: if it is missing, or is not 32 bytes in Base64.
        """
        text = self.key.read().strip()
        if not text:
            problem = f"{self.key.problem()}. Put the key there" if self.key else "set `key`"
            raise SettingsError(f"The encryption key {self.id!r} is missing: {problem}. {_ADVICE}")
        try:
            secret = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            secret = b""
        if len(secret) != KEY_BYTES:
            raise SettingsError(f"The encryption key {self.id!r} is not {KEY_BYTES} bytes in Base64. {_ADVICE}")
        return EncryptionKey(self.id, secret)


def to_keys(sections: tuple[EncryptionKeySection, ...]) -> tuple[EncryptionKey, ...]:
    """Return the keys, of which the first one encrypts.

    Raises:
        SettingsError: if one is missing or wrong, or two have the same name.
    """
    keys = tuple(section.to_key() for section in sections)
    ids = [key.id for key in keys]
    if repeated := next((id_ for id_ in ids if ids.count(id_) > 1), ""):
        raise SettingsError(f"Two encryption keys have the name {repeated!r}. Give each its own.")
    return keys
