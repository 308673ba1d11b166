"""Column types for text of any content."""

from __future__ import annotations

from sqlalchemy import Dialect, String, Text, TypeDecorator
from sqlalchemy.dialects.mysql import LONGTEXT


class LargeText(TypeDecorator[str]):
    """Text of any length and content. NUL is removed, and an unpaired surrogate becomes ``?``."""

    impl = Text().with_variant(LONGTEXT(), "mysql", "mariadb")  # MySQL's own TEXT ends at 64 kB
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Return a text that every database accepts."""
        return None if value is None else storable_text(value)


class LineText(TypeDecorator[str]):
    """Text of limited length and any content. NUL becomes U+FFFD, and an unpaired surrogate becomes ``?``.

    Different texts stay different, so a lookup by such an id or name matches no other one.
    """

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Return a text of the same length that every database accepts."""
        return None if value is None else _encodable(value.replace("\x00", "\ufffd"))


def storable_text(text: str) -> str:
    """Return a text that every database accepts, and that is not changed by it."""
    return _encodable(text.replace("\x00", ""))


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
