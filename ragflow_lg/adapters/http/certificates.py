"""The certificates that this machine trusts."""

import ssl
from functools import cache

import httpx


@cache
def trusted_certificates() -> ssl.SSLContext:
    """Return the TLS context that clients share. Reading the certificates takes longer than a request."""
    return httpx.create_ssl_context()
