"""Texts that are encrypted in the database: what users and models have written, and what failures say about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Dialect, TypeDecorator

from ragflow_lg.base.errors import SessionKeyError
from ragflow_lg.checkpoints.key_mark import require_plain
from ragflow_lg.server.database.text_types import LargeText, storable_text

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from ragflow_lg.checkpoints.key_ring import KeyRing

PREFIX = "ragflow-lg encrypted "
"""What is before an encrypted text. Before the settings had keys, a user can have written anything."""
_DOMAIN = "database"
_KEYS = "ragflow_lg_keys"


def use_keys(engine: Engine, keys: KeyRing | None) -> None:
    """Encrypt and decrypt what is written and read through an engine."""
    setattr(engine.dialect, _KEYS, keys)


class EncryptedText(TypeDecorator[str]):
    """Text of any length and content, bound to its column. Empty texts are not encrypted: queries ask for them.

    A text that cannot be decrypted is read as the reason for that, so that a list of rows can still be shown.
    """

    impl = LargeText
    cache_ok = True

    def __init__(self, column: str) -> None:
        """``column`` is the name of the table and the column."""
        super().__init__()
        self.column = column

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Return a text as it is stored."""
        keys = keys_of(dialect)
        if not value or keys is None:
            return value
        return PREFIX + keys.encrypt_text(_DOMAIN, [self.column], storable_text(value))

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        """Return a stored text."""
        if not value or not value.startswith(PREFIX):
            return value
        try:
            return self.decrypt(value, keys_of(dialect))
        except SessionKeyError as error:
            return f"({error})"

    def decrypt(self, stored: str, keys: KeyRing | None) -> str:
        """Return a stored text.

        Raises:
            SessionKeyError: If it cannot be decrypted.
        """
        if not stored.startswith(PREFIX):
            return stored
        text = stored.removeprefix(PREFIX)
        if keys is None:
            require_plain(text)
            return stored
        return keys.decrypt_text(_DOMAIN, [self.column], text)


def keys_of(dialect: Dialect) -> KeyRing | None:
    """Return the keys of an engine's dialect."""
    return getattr(dialect, _KEYS, None)
