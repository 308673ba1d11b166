"""The HTTP client for all outgoing requests.

httpx builds the requests and httpcore, the layer below it, sends them: only httpcore can pin a connection to the
address that `ragflow_lg.adapters.http.address_guard` checked and still use the name for the Host header and the
certificate. Redirects are not followed; cookies, ``.netrc`` and the environment's proxy variables are not used.
"""

from __future__ import annotations

import asyncio
import base64
import codecs
import json
import re
import ssl
import zlib
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from urllib.parse import urlencode

import httpcore
import httpx
from msgspec import Struct

from ragflow_lg.adapters.http.address_guard import AddressGuard, PinnedNetwork, Resolver, TunnelNetwork, resolve_host
from ragflow_lg.adapters.http.certificates import trusted_certificates
from ragflow_lg.adapters.http.http_settings import HttpSettings
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.services.http import HttpRequest, HttpResponse, current_traceparent

USER_AGENT = "ragflow-lg"

_DEFAULT_PORTS = {"http": 80, "https": 443}
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]{1,40})", re.IGNORECASE)
_DECLARATION = re.compile(
    r"<(?:meta\s[^>]{0,200}charset|\?xml\s[^>]{0,100}encoding)\s*=\s*[\"']?([\w.:-]{1,40})", re.IGNORECASE
)
_HEAD_BYTES = 1024
"""Where browsers look for a page's declaration."""
# They also decode arbitrary bytes to text, but in quadratic time.
_SLOW_CHARSETS = {"idna", "punycode"}
_FAILURES = (
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.ProxyError,
    httpcore.TimeoutException,
    OSError,
    zlib.error,
)
# The client sets the headers that frame a message; values from a canvas are ignored.
_FRAMING_HEADERS = {
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
}


class _LoopConnections(Struct, frozen=True):
    """The connections of one event loop, and the permits that limit their number."""

    loop: asyncio.AbstractEventLoop
    pool: httpcore.AsyncConnectionPool
    permits: asyncio.Semaphore


class GuardedHttpClient:
    """A `ragflow_lg.services.services.HttpClient` that refuses internal addresses.

    If a request uses a proxy, the addresses of both the proxy and the target are checked, and the proxy receives the
    target's checked address. ``resolve`` and ``tls`` replace the system's name resolution and trusted certificates.
    """

    def __init__(
        self,
        settings: HttpSettings = HttpSettings(),
        *,
        resolve: Resolver = resolve_host,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._settings = settings
        self._guard = AddressGuard(settings.allow, resolve=resolve)
        self._tls = tls
        self._connections: _LoopConnections | None = None

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Send a request and return the response, whatever its status.

        ``timeout_s`` covers the whole exchange, from waiting for a free connection to the last byte.

        Raises:
            ServiceError: for a refused address, an invalid URL or header, a failed connection (including an invalid
            certificate), a timeout, or a response that is too large or cannot be decoded.
        """
        url = parse_url(request.url, "URL")
        message = _build(request, url)
        limit_s = min(request.timeout_s, self._settings.timeout_s)
        try:
            async with asyncio.timeout(limit_s), self._open().permits, self._exchange(message, request.proxy) as answer:
                status, headers = answer.status, httpx.Headers(answer.headers)
                body = await self._body(answer, headers, request.max_response_bytes)
        except TimeoutError:
            raise ServiceError(f"{url.host!r} did not answer within {limit_s:g} s.", is_retryable=True) from None
        except _FAILURES as error:
            raise _failure(url, error) from error
        if request.is_binary:
            return HttpResponse(status, dict(headers), "", str(message.url), body)
        return HttpResponse(status, dict(headers), _decode(body, headers, request.text_charset), str(message.url))

    def open_pool(self, max_connections: int) -> httpcore.AsyncConnectionPool:
        """Create a pool for a longer conversation; the caller closes it. All its connections use checked addresses."""
        return httpcore.AsyncConnectionPool(
            ssl_context=self._tls_context(),
            max_connections=max_connections,
            keepalive_expiry=5.0,
            network_backend=PinnedNetwork(self._guard),
        )

    async def aclose(self) -> None:
        """Close all idle connections; a later request opens new ones."""
        connections, self._connections = self._connections, None
        if connections is not None and connections.loop is asyncio.get_running_loop():
            await connections.pool.aclose()

    def _open(self) -> _LoopConnections:
        """Return the running loop's connections; connections from a loop that has ended can no longer be used."""
        loop = asyncio.get_running_loop()
        if self._connections is None or self._connections.loop is not loop:
            limit = self._settings.concurrency
            self._connections = _LoopConnections(loop, self.open_pool(limit), asyncio.Semaphore(limit))
        return self._connections

    def _tls_context(self) -> ssl.SSLContext:
        return self._tls or trusted_certificates()

    @asynccontextmanager
    async def _exchange(self, request: httpx.Request, proxy: str) -> AsyncGenerator[httpcore.Response]:
        url = request.url
        if proxy:
            async with self._open_proxy(url, proxy) as (pool, host, port), _stream(pool, request, host, port) as answer:
                yield answer
        else:
            async with _stream(self._open().pool, request, url.raw_host, url.port) as answer:
                yield answer

    @asynccontextmanager
    async def _open_proxy(
        self, url: httpx.URL, proxy: str
    ) -> AsyncGenerator[tuple[httpcore.AsyncConnectionPool, bytes, int]]:
        """Yield a one-time proxy connection, with the address and port of the target."""
        via = parse_url(proxy, "proxy URL")
        addresses = await self._guard.resolve(url.raw_host.decode("ascii"), _port(url))
        # Some proxies do not support IPv6 addresses.
        address, port = next(((a, p) for a, p in addresses if ":" not in a), addresses[0])
        host = f"[{address}]" if ":" in address else address
        async with httpcore.AsyncHTTPProxy(
            proxy_url=httpcore.URL(scheme=via.raw_scheme, host=via.raw_host, port=_port(via), target=b"/"),
            proxy_auth=(via.username.encode(), via.password.encode()) if via.userinfo else None,
            ssl_context=self._tls_context(),
            proxy_ssl_context=self._tls_context() if via.scheme == "https" else None,
            network_backend=TunnelNetwork(self._guard, address=host, name=url.raw_host.decode("ascii")),
        ) as pool:
            yield pool, host.encode("ascii"), port

    async def _body(self, answer: httpcore.Response, headers: Mapping[str, str], own_limit: int | None) -> bytes:
        """Read the body, stopping at the limit before and after decompression."""
        limit, setting = self._settings.max_response_bytes, " ([http] max_response_bytes)"
        if own_limit is not None and own_limit < limit:
            limit, setting = own_limit, ""
        too_large = ServiceError(f"The response is larger than the limit of {limit:,} bytes{setting}.")
        length = headers.get("content-length", "")
        if length.isascii() and length.isdecimal() and len(length) < 20 and int(length) > limit:
            raise too_large
        unzip = _Gunzip() if _is_gzip(headers.get("content-encoding", "")) else None
        body, received = bytearray(), 0
        async for chunk in answer.aiter_stream():
            received += len(chunk)
            body += unzip.feed(chunk, limit - len(body)) if unzip else chunk
            if received > limit or len(body) > limit:
                raise too_large
        if unzip and received:
            unzip.check_end()
        return bytes(body)


class _Gunzip:
    """Incremental gzip decompression with bounded output."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(zlib.MAX_WBITS | 16)

    def feed(self, data: bytes, room: int) -> bytes:
        """Return the decompressed data, truncated to ``room`` + 1 bytes."""
        output = self._stream.decompress(data, room + 1)
        if self._stream.unused_data:
            raise ServiceError("The response has extra data after the end of its gzip data.")
        return output

    def check_end(self) -> None:
        if not self._stream.eof:
            raise ServiceError("The response ends in the middle of its gzip data.", is_retryable=True)


def _is_gzip(encoding: str) -> bool:
    """Return whether a Content-Encoding is gzip; raise for any other encoding, because only gzip was requested."""
    name = encoding.strip().lower()
    if name not in ("", "identity", "gzip", "x-gzip"):
        raise ServiceError(f"The response has the unsupported encoding {encoding[:40]!r}; only gzip was requested.")
    return name.endswith("gzip")


@asynccontextmanager
async def _stream(
    pool: httpcore.AsyncConnectionPool, request: httpx.Request, host: bytes, port: int | None
) -> AsyncGenerator[httpcore.Response]:
    target = httpcore.URL(scheme=request.url.raw_scheme, host=host, port=port, target=request.url.raw_path)
    content = request.read() or None
    async with pool.stream(request.method, target, headers=request.headers.raw, content=content) as answer:
        yield answer


def parse_url(text: str, what: str) -> httpx.URL:
    """Parse a URL and convert an international host name to ASCII. Errors omit the URL: it may contain a password.

    Raises:
        ServiceError: if it is not a valid HTTP or HTTPS URL.
    """
    try:
        url = httpx.URL(text)
    except (httpx.InvalidURL, UnicodeError) as error:
        raise ServiceError(
            f"The {what} cannot be parsed. Check its host name and port, and that it has no line breaks."
        ) from error
    if url.scheme not in _DEFAULT_PORTS:
        raise ServiceError(f"The {what} is not valid: only http and https are supported.")
    if not url.host:
        raise ServiceError(f"The {what} is not valid: it has no host.")
    if not 0 < _port(url) < 65536:
        raise ServiceError(f"The {what} is not valid: the port must be between 1 and 65535.")
    return url


def _port(url: httpx.URL) -> int:
    return _DEFAULT_PORTS[url.scheme] if url.port is None else url.port


def _build(request: HttpRequest, url: httpx.URL) -> httpx.Request:
    headers = dict(encode_headers(request.headers))
    names = {name.lower() for name in headers}
    if url.userinfo and "authorization" not in names:
        credentials = f"{url.username}:{url.password}".encode()
        headers["Authorization"] = b"Basic " + base64.b64encode(credentials)
    content, content_type = _content(request)
    if content_type and "content-type" not in names:
        headers["Content-Type"] = content_type
    for name, value in (("User-Agent", USER_AGENT.encode()), ("Accept", b"*/*")):
        if name.lower() not in names:
            headers[name] = value
    if (trace := current_traceparent()) and "traceparent" not in names:
        headers["traceparent"] = trace.encode("ascii")
    headers["Accept-Encoding"] = b"gzip"
    url = url.copy_with(userinfo=b"", fragment=None)
    if request.query:
        added = urlencode(request.query, doseq=True, errors="replace").encode("ascii")
        url = url.copy_with(query=b"&".join(part for part in (url.query, added) if part))
    pairs = [(name.encode("ascii"), value) for name, value in headers.items()]
    return httpx.Request(request.method, url, headers=pairs, content=content)


def encode_headers(headers: Mapping[str, str]) -> Iterable[tuple[str, bytes]]:
    """Yield the headers encoded for HTTP, without those that frame a message.

    Raises:
        ServiceError: for a name or a value that is not valid in HTTP.
    """
    for name, value in headers.items():
        text = value.strip()
        if not _TOKEN.fullmatch(name):
            raise ServiceError(f"The header name {name[:80]!r} is not valid.")
        if _CONTROL.search(text):
            raise ServiceError(f"The value of the header {name!r} has a line break or another control character.")
        if name.lower() not in _FRAMING_HEADERS:
            yield name, text.encode("utf-8", "replace")


def _content(request: HttpRequest) -> tuple[bytes | None, bytes]:
    """Return the body and its content type."""
    if request.body is not None:
        return request.body, b""
    if request.form is not None:
        form = urlencode(request.form, doseq=True, errors="replace").encode("ascii")
        return form, b"application/x-www-form-urlencoded"
    if request.json is None:
        return None, b""
    try:
        return json.dumps(request.json, allow_nan=False).encode("ascii"), b"application/json"
    except (TypeError, ValueError, RecursionError) as error:
        raise ServiceError("The body of the request cannot be encoded as JSON.") from error


def _decode(body: bytes, headers: Mapping[str, str], text_charset: str = "") -> str:
    kind = headers.get("content-type", "")
    if text_charset and "text" in kind.lower() and not _CHARSET.search(kind):
        return body.decode(text_charset, "replace")
    for charset in _declared_charsets(body, kind):
        try:
            if codecs.lookup(charset).name not in _SLOW_CHARSETS:
                return body.decode(charset, "replace").removeprefix("\ufeff")
        except (LookupError, ValueError):
            pass
    return body.decode("utf-8", "replace").removeprefix("\ufeff")


def _declared_charsets(body: bytes, content_type: str) -> Iterable[str]:
    """Yield the charset of the headers, of the byte order mark, and that a page or an XML document declares."""
    if match := _CHARSET.search(content_type):
        yield match[1]
    if body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        yield "utf-16"
    if not content_type or "html" in content_type.lower() or "xml" in content_type.lower():
        match = _DECLARATION.search(body[:_HEAD_BYTES].decode("latin-1"))
        if match and not match[1].lower().startswith("utf-16"):  # the declaration itself could not be read
            yield match[1]


def _failure(url: httpx.URL, error: Exception) -> ServiceError:
    """Convert an exception to an error with our own message; httpcore's message may contain header values."""
    host = url.host
    match error:
        case httpcore.ProxyError():
            return ServiceError(f"The proxy refused a tunnel to {host!r}: {error}.", is_retryable=True)
        case httpcore.ProtocolError():
            return ServiceError(f"{host!r} did not send a valid, complete HTTP response.", is_retryable=True)
        case httpcore.ReadError() | httpcore.WriteError():
            return ServiceError(f"The connection to {host!r} was interrupted.", is_retryable=True)
        case zlib.error():
            return ServiceError(f"The response of {host!r} is not valid gzip data.")
        case _:
            return ServiceError(f"Cannot connect to {host!r}: {error}.", is_retryable=True)
