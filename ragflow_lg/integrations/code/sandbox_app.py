"""The web application of ``ragflow-lg sandbox serve``: ``GET /healthz`` and ``POST /run``.

Source of the contract: RAGFlow's ``agent/sandbox/executor_manager``. A program that fails is answered with status 200.
"""

from __future__ import annotations

import secrets
import time
from base64 import b64decode
from typing import TYPE_CHECKING, Annotated, Any, Literal

import orjson
from msgspec import Struct
from pydantic import BaseModel, BeforeValidator, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ragflow_lg.base.errors import RagflowLgError, RequestError
from ragflow_lg.integrations.code.http_sandbox import SERVICE_LANGUAGES, write_error, write_reply
from ragflow_lg.integrations.code.programs import CodeRequest, CodeSandbox, Language
from ragflow_lg.server.http.shared.request_bodies import LimitedBody, read_body

if TYPE_CHECKING:
    from starlette.types import ASGIApp

_LANGUAGES: dict[str, Language] = {name: language for language, name in SERVICE_LANGUAGES.items()}
_UNPROCESSABLE = 422
_OK = {"status": "ok"}
BODY_TIMEOUT_S = 30.0
"""How long a request may take to arrive."""


def _decode(text: Any) -> str:
    if not isinstance(text, str):
        raise ValueError("it must be a text in base64")  # Pydantic reports no TypeError
    return b64decode(text, validate=True).decode("utf-8")


class _Program(BaseModel):
    """The body of ``POST /run``: a program in UTF-8 as base64."""

    language: Literal["python", "nodejs"] = "python"
    code_b64: Annotated[str, BeforeValidator(_decode)]
    arguments: dict[str, Any] | None = None


class _Service(Struct, frozen=True):
    """The routes. ``key`` is required from clients, unless it is ``""``."""

    sandbox: CodeSandbox
    key: str
    max_body_bytes: int

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
            code_request = await self._read_request(request)
        except RequestError as error:
            return _json({"detail": str(error)}, error.status if error.status in (408, 413) else _UNPROCESSABLE)
        try:
            result = await self.sandbox.run(code_request)
        except RagflowLgError as error:
            return _json(write_error(error, _milliseconds(begun)))
        return _json(write_reply(result, _milliseconds(begun)))

    async def _read_request(self, request: Request) -> CodeRequest:
        """Read the body of ``POST /run``."""
        body = LimitedBody(request.receive, request.scope, self.max_body_bytes, BODY_TIMEOUT_S, "for programs")
        try:
            program = _Program.model_validate(await read_body(Request(request.scope, body.receive)))
        except ValidationError as error:
            faults = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()]
            raise RequestError("; ".join(faults)) from None
        return CodeRequest(_LANGUAGES[program.language], program.code_b64, program.arguments or {})


def sandbox_app(sandbox: CodeSandbox, *, key: str = "", code_bytes: int) -> ASGIApp:
    """Return the application. ``code_bytes`` is the largest program, which a request contains as base64."""
    service = _Service(sandbox, key, 2 * code_bytes + 65_536)
    return Starlette(
        routes=[
            Route("/", service.health, methods=["GET"]),
            Route("/healthz", service.health, methods=["GET"]),
            Route("/run", service.run, methods=["POST"]),
        ]
    )


def _has_key(request: Request, key: str) -> bool:
    given = request.headers.get("authorization", "").removeprefix("Bearer ").strip()
    return secrets.compare_digest(given.encode("utf-8", "replace"), key.encode("utf-8", "replace"))


def _milliseconds(begun: float) -> float:
    return round((time.monotonic() - begun) * 1000, 3)


def _json(value: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(value), status, media_type="application/json")
