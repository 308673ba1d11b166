"""Values within an address, escaped for the part in which they stand, so that they cannot change other parts."""

from __future__ import annotations

import re
from urllib.parse import quote

_IN_PATH = "/:@!$&'()*+,;=%"
_IN_PARAMETERS = "/:@!$&'()*+,;=?%"
_IN_PARAMETER = "/:@!$'()*,=?%"
_HOST_ENDS = re.compile(r"[?#@\\\s]")
_SCHEME_ONLY = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_LONE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")


def escape_value(before: str, value: str, after: str) -> str:
    """Return a value as it stands in an address between two texts.

    At the beginning, and alone after ``https://``, a value is an address or a part of one, and stays as it is. In a
    path it may have slashes. Directly after ``?`` or ``&`` it is a list of parameters, unless ``=`` follows. Elsewhere
    in the query it is one value. What is already escaped (``%20``) stays so.

    Raises:
        ValueError: for ``..`` in a path, which cannot be escaped and would remove what stands before it.

    >>> escape_value("https://h.test/?q=", "a&b#c", ""), escape_value("https://h.test/", "a/b?c", "/d")
    ('a%26b%23c', 'a/b%3Fc')
    """
    address = before.lstrip()
    if not address or "#" in address:
        return value
    if "?" in address:
        is_list = address[-1] in "?&" and not after.startswith("=")
        return _quote(value, _IN_PARAMETERS if is_list else _IN_PARAMETER)
    scheme, slashes, rest = address.partition("//")
    if slashes and "/" not in rest:
        if not after and _SCHEME_ONLY.fullmatch(scheme + slashes + rest):
            return value
        host, slash, path = value.partition("/")  # a host is not quoted: it may be an international name
        return _HOST_ENDS.sub(lambda match: quote(match[0], safe=""), host) + slash + _quote(path, _IN_PATH)
    if ".." in (before.rpartition("/")[2] + value + after.partition("/")[0]).split("/"):
        raise ValueError("a value in the path has the part '..'")
    return _quote(value, _IN_PATH)


def _quote(value: str, safe: str) -> str:
    return escape_percent(quote(value, safe=safe, errors="replace"))


def escape_percent(address: str) -> str:
    """Escape percent signs that do not begin an escape.

    >>> escape_percent("100%&x=%41")
    '100%25&x=%41'
    """
    return _LONE_PERCENT.sub("%25", address)
