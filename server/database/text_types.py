"""Column types for texts of any content, and for those that are encrypted: what users and models have written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Dialect, String, Text, TypeDecorator
from sqlalchemy.dialects.mysql import LONGTEXT

from ragflow_lg.base.errors import SessionKeyError
from ragflow_lg.base.values import join_surrogates
from ragflow_lg.checkpoints.key_ring import require_plain

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from ragflow_lg.checkpoints.key_ring import KeyRing


class LargeText(TypeDecorator[str]):
    """Text of any length and content. NUL is removed, surrogates are joined, and a lone one becomes U+FFFD."""

    impl = Text().with_variant(LONGTEXT(), "mysql", "mariadb")  # MySQL's own TEXT ends at 64 kB
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Return a text that every database accepts."""
        return None if value is None else storable_text(value)


class LineText(TypeDecorator[str]):
    """Text of limited length and any content. NUL and a lone surrogate become U+FFFD; surrogates are joined.

    NUL is not removed, so a lookup by such an id or name does not match the one without it.
    """

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Return a text that is no longer, and that every database accepts."""
        return None if value is None else join_surrogates(value.replace("\x00", "\ufffd"))


def storable_text(text: str) -> str:
    """Return a text that every database accepts, and that is not changed by it."""
    return join_surrogates(text.replace("\x00", ""))


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
        keys = getattr(dialect, _KEYS, None)
        if not value or keys is None:
            return value
        return PREFIX + keys.encrypt_text(_DOMAIN, [self.column], storable_text(value))

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        """Return a stored text."""
        if not value or not value.startswith(PREFIX):
            return value
        text, keys = value.removeprefix(PREFIX), getattr(dialect, _KEYS, None)
        try:
            if keys is not None:
                return keys.decrypt_text(_DOMAIN, [self.column], text)
            require_plain(text)
        except SessionKeyError as error:
            return f"({error})"
        return value  # the text itself begins so
