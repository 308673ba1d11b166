"""Settings of the HTTP client. They are separate from it so that reading the settings does not import httpx."""

from __future__ import annotations

from msgspec import Struct


class HttpSettings(Struct, frozen=True):
    """Client settings. ``timeout_s`` also limits requests that specify a longer timeout."""

    allow: tuple[str, ...] = ()
    timeout_s: float = 600.0
    max_response_bytes: int = 16 * 1024 * 1024
    concurrency: int = 32
