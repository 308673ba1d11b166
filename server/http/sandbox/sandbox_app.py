"""The web application of ``ragflow-lg sandbox serve``: ``GET /healthz`` and ``POST /run``.

Source of the contract: RAGFlow's ``agent/sandbox/executor_manager``. A program that fails is answered with status 200.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
import time
from typing import TYPE_CHECKING, Any, cast

import orjson
from msgspec import Struct
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ragflow_lg.adapters.code.http_sandbox import SERVICE_LANGUAGES, write_error, write_reply
from ragflow_lg.base.errors import ForeignJsonError, RagflowLgError, RequestError
from ragflow_lg.base.foreign_json import read_foreign_json
from ragflow_lg.base.json_scanner import JsonLimits
from ragflow_lg.base.values import JsonValue
from ragflow_lg.services.code import CodeRequest, CodeSandbox, Language
from ragflow_lg.services.workers import Workers

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp

_LANGUAGES: dict[str, Language] = {name: language for language, name in SERVICE_LANGUAGES.items()}
_UNPROCESSABLE = 422
_OK = {"status": "ok"}
BODY_TIMEOUT_S = 30.0
"""How long a request may take to arrive."""


class _Service(Struct, frozen=True):
    """The routes. ``key`` is required from clients, unless it is ``""``."""

    sandbox: CodeSandbox
    key: str
    max_body_bytes: int
    workers: Workers

    async def health(self, request: Request) -> Response:
        """Return that programs can run: the service does not start otherwise."""
        return _json(_OK)

    async def run(self, request: Request) -> Response:
        """Run a program."""
        if self.key and not _has_key(request, self.key):
            return _json({"detail": "The key is missing or wrong."}, 401)
        if "origin" in request.headers:  # browsers add it to whatever a page sends, also to another site
            return _json({"detail": "Web pages cannot run programs."}, 403)
        begun = time.monotonic()
        try:
            code_request = _read_request(await self._read_json(request))
        except RequestError as error:
            return _json({"detail": str(error)}, error.status)
        try:
            result = await self.sandbox.run(code_request)
        except RagflowLgError as error:
            return _json(write_error(error, _milliseconds(begun)))
        return _json(write_reply(result, _milliseconds(begun)))

    async def _read_json(self, request: Request) -> JsonValue:
        body = await self._read_body(request)
        try:
            return await self.workers.run(read_foreign_json, body, JsonLimits(self.max_body_bytes))
        except ForeignJsonError as error:
            raise RequestError(f"The body is not JSON that can be used: it {error}.", status=_UNPROCESSABLE) from None

    async def _read_body(self, request: Request) -> bytes:
        body = bytearray()
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                async for piece in request.stream():
                    body += piece
                    if len(body) > self.max_body_bytes:
                        raise RequestError(f"The request has more than {self.max_body_bytes:,} bytes.", status=413)
        except TimeoutError:
            raise RequestError("The request took too long to arrive.", status=408) from None
        return bytes(body)


def sandbox_app(sandbox: CodeSandbox, workers: Workers, *, key: str = "", code_bytes: int) -> ASGIApp:
    """Return the application. ``code_bytes`` is the largest program, which a request contains as base64."""
    service = _Service(sandbox, key, 2 * code_bytes + 65_536, workers)
    routes: list[tuple[str, Callable[[Request], Any], list[str]]] = [
        ("/", service.health, ["GET"]),
        ("/healthz", service.health, ["GET"]),
        ("/run", service.run, ["POST"]),
    ]
    return Starlette(routes=[Route(path, handler, methods=methods) for path, handler, methods in routes])


def _read_request(value: JsonValue) -> CodeRequest:
    """Read the body of ``POST /run``.

    Raises:
        RequestError: if it is malformed.
    """
    if not isinstance(value, dict):
        raise RequestError("The body must be a JSON object.", status=_UNPROCESSABLE)
    fields: dict[str, Any] = value
    language = _LANGUAGES.get(str(fields.get("language", "python")))
    if language is None:
        raise RequestError(f"language must be one of: {', '.join(_LANGUAGES)}.", status=_UNPROCESSABLE)
    arguments: Any = fields.get("arguments") or {}
    if not isinstance(arguments, dict):
        raise RequestError("arguments must be an object.", status=_UNPROCESSABLE)
    encoded: Any = fields.get("code_b64")
    if not isinstance(encoded, str):
        raise RequestError("code_b64 is missing: a program in UTF-8 as base64.", status=_UNPROCESSABLE)
    try:
        code = base64.b64decode(encoded, validate=True).decode("utf-8")
    except ValueError as error:
        raise RequestError(f"code_b64 must be a program in UTF-8 as base64: {error}.", status=_UNPROCESSABLE) from None
    return CodeRequest(language, code, cast("dict[str, JsonValue]", arguments))


def _has_key(request: Request, key: str) -> bool:
    given = request.headers.get("authorization", "").removeprefix("Bearer ").strip()
    return secrets.compare_digest(given.encode("utf-8", "replace"), key.encode("utf-8", "replace"))


def _milliseconds(begun: float) -> float:
    return round((time.monotonic() - begun) * 1000, 3)


def _json(value: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(value), status, media_type="application/json")
