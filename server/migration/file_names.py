"""Names of files for titles that a server chose: safe on every system, and different from each other."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container
from hashlib import sha256

MAX_CHARS = 60
"""Maximum length of a name without its ending."""

_UNSAFE = re.compile(r"[^\w-]+", re.ASCII)
_RESERVED = re.compile(r"con|prn|aux|nul|com\d|lpt\d")


def choose_name(title: str, id_: str, taken: Container[str]) -> str:
    """Return a name for a title that is not ``taken``: lower case letters, digits, ``_`` and ``-``.

    Lower case, because names that differ only in case are one file on some systems. The id makes it different.

    >>> choose_name("Customer Service / DE", "a1b2c3d4e5", ())
    'customer_service_de'
    >>> choose_name("../../etc/passwd", "a1b2c3d4e5", ("etc_passwd",))
    'etc_passwd-a1b2c3d4'
    >>> choose_name("CON", "a1b2c3d4e5", ())
    'con-a1b2c3d4'
    """
    plain = unicodedata.normalize("NFKD", title[:1_000]).encode("ascii", "ignore").decode()
    name = _UNSAFE.sub("_", plain.lower()).strip("_-")[:MAX_CHARS].strip("_-")
    if name and name not in taken and not _RESERVED.fullmatch(name):
        return name
    name = f"{name or 'agent'}-{_UNSAFE.sub('', id_).lower()[:8] or 'x'}"
    if name not in taken:
        return name
    return f"{name}-{sha256(id_.encode('utf-8', 'replace')).hexdigest()[:16]}"
