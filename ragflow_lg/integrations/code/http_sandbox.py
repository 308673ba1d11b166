"""The client of a sandbox service, RAGFlow's own one or ``ragflow-lg sandbox serve``, and its messages.

Source: RAGFlow's ``agent/sandbox/executor_manager/models/schemas.py``.
"""

from __future__ import annotations

import base64
import signal
import time
from collections.abc import Mapping
from typing import Any, cast

from ragflow_lg.base.errors import (
    CodeLimitError,
    ComponentError,
    ForeignJsonError,
    RagflowLgError,
    ServiceError,
    WorkLimitError,
)
from ragflow_lg.base.foreign_json import SMALL_BYTES
from ragflow_lg.base.json_scanner import JsonLimits, parse_foreign_json
from ragflow_lg.base.lenient_values import as_list, as_map, as_text
from ragflow_lg.base.values import MAX_CHARS, JsonValue, to_json
from ragflow_lg.base.worker_tasks import worker_task
from ragflow_lg.integrations.code.code_settings import DEFAULT_LIMITS, CodeLimits, exceeded
from ragflow_lg.integrations.code.programs import CodeRequest, CodeResult, Language
from ragflow_lg.services.artifacts import Artifact
from ragflow_lg.services.http import HttpClient, HttpRequest
from ragflow_lg.services.workers import NoWorkers, Workers

SERVICE_LANGUAGES: Mapping[Language, str] = {"python": "python", "javascript": "nodejs"}
"""The service's names of the languages."""

_EXIT_CODES = {"timeout_s": -124, "cpu_s": -124, "memory_bytes": -137}
_LIMIT_TYPES = {"timeout_s": "time", "cpu_s": "time", "memory_bytes": "memory", "output_bytes": "output"}
PIECE_CHARS = 1024 * 1024
"""How many characters of an artifact are a text of their own, a multiple of 4."""

_INTERNAL_ERROR = -3
_BUSY = -10
_REFUSED = ("Permission denied", "Operation not permitted")


def write_request(request: CodeRequest) -> dict[str, JsonValue]:
    """Return a request as the service reads it."""
    code = base64.b64encode(request.code.encode("utf-8", "replace")).decode("ascii")
    return {"code_b64": code, "language": SERVICE_LANGUAGES[request.language], "arguments": dict(request.arguments)}


@worker_task("Reading the sandbox's reply", small_size=SMALL_BYTES)
def parse_reply(text: str) -> JsonValue:
    """Return a reply, in which the content of each artifact is a list of pieces that are not too long for a value.

    Raises:
        ForeignJsonError: if it is not JSON, or has more than 32 Mi characters or too many entries.
    """
    reply = parse_foreign_json(text, JsonLimits(2 * MAX_CHARS))
    for artifact in map(as_map, as_list(as_map(reply).get("artifacts"))):
        content = as_text(artifact.get("content_b64"))
        pieces = [content[start : start + PIECE_CHARS] for start in range(0, len(content), PIECE_CHARS)]
        cast("dict[str, Any]", artifact)["content_b64"] = pieces
    try:
        return to_json(reply)
    except ComponentError as error:
        raise ForeignJsonError(f"cannot be used: {str(error).rstrip('.')}") from None


def read_reply(reply: Any) -> CodeResult:
    """Return the result in a reply from `parse_reply`. Its fields may be missing, or null.

    Raises:
        ServiceError: if it is not a reply.
    """
    if not isinstance(reply, Mapping):
        raise ServiceError("The sandbox answered without a JSON object.")
    fields = cast("Mapping[str, Any]", reply)
    result: Any = fields.get("result")
    structured = as_map(result)
    has_value = structured.get("present") is True
    exit_code, artifacts = fields.get("exit_code"), fields.get("artifacts")
    return CodeResult(
        stdout=as_text(fields.get("stdout")),
        stderr=as_text(fields.get("stderr")),
        exit_code=exit_code if isinstance(exit_code, int) else 0,
        has_value=has_value,
        value=structured.get("value") if has_value else None,
        artifacts=tuple(_read_artifacts(as_list(artifacts))),
    )


def _read_artifacts(artifacts: list[Any]) -> list[Artifact]:
    """Return the artifacts that have a name and content, as RAGFlow does."""
    read: list[Artifact] = []
    for artifact in artifacts:
        fields = as_map(artifact)
        name, pieces = as_text(fields.get("name")), as_list(fields.get("content_b64"))
        if name and pieces:
            try:
                data = b"".join(base64.b64decode(as_text(piece), validate=True) for piece in pieces)
            except ValueError:
                raise ServiceError(f"The sandbox answered with a damaged artifact {name[:80]!r}.") from None
            read.append(Artifact(name, as_text(fields.get("mime_type")) or "application/octet-stream", data))
    return read


def write_reply(result: CodeResult, milliseconds: float) -> dict[str, JsonValue]:
    """Return a result as the service's reply."""
    reply: dict[str, Any] = {
        "status": "success",
        "stdout": result.stdout,
        "stderr": result.stderr,
        "exit_code": result.exit_code,
        "time_used_ms": milliseconds,
        "artifacts": [_write_artifact(artifact) for artifact in result.artifacts],
        "result": {"present": True, "value": result.value, "type": "json"} if result.has_value else None,
    }
    if result.exit_code:
        reply |= _describe_failure(result)
    return reply


def _write_artifact(artifact: Artifact) -> dict[str, JsonValue]:
    return {
        "name": artifact.name,
        "mime_type": artifact.mime_type,
        "size": len(artifact.content),
        "content_b64": base64.b64encode(artifact.content).decode("ascii"),
    }


def _describe_failure(result: CodeResult) -> dict[str, JsonValue]:
    if any(text in result.stderr for text in _REFUSED):
        kind = "network_access" if "socket" in result.stderr else "file_access"
        return {"status": "unauthorized_access", "unauthorized_access_type": kind}
    is_signalled = result.exit_code > 128 and result.exit_code - 128 in {*signal.Signals}
    return {"status": "runtime_error", "runtime_error_type": "signalled" if is_signalled else "nonzero_exit"}


def write_error(error: RagflowLgError, milliseconds: float) -> dict[str, JsonValue]:
    """Return an exceeded limit, or a failure of the sandbox, as the service's reply."""
    reply: dict[str, JsonValue] = {"stdout": "", "stderr": str(error), "time_used_ms": milliseconds, "result": None}
    if isinstance(error, CodeLimitError):
        kind = _LIMIT_TYPES.get(error.limit, "output")
        exit_code = _EXIT_CODES.get(error.limit, 1)
        return {**reply, "status": "resource_limit_exceeded", "exit_code": exit_code, "resource_limit_type": kind}
    reply["status"] = "program_runner_error"
    if isinstance(error, WorkLimitError):
        return {**reply, "exit_code": _BUSY, "detail": "no_available_container"}
    return {**reply, "exit_code": _INTERNAL_ERROR, "detail": "internal_error"}


QUEUE_S = 20.0
"""How long a request may wait in the service, in addition to the time limit of its program."""

HEALTHY_S = 30.0
"""How long the service counts as healthy after it has said so."""

_MAX_SHOWN_CHARS = 500


class HttpSandbox:
    """A `CodeSandbox` that sends programs to a service."""

    def __init__(
        self,
        url: str,
        http: HttpClient,
        limits: CodeLimits = DEFAULT_LIMITS,
        *,
        key: str = "",
        workers: Workers | None = None,
    ) -> None:
        """Initialize.

        ``url`` is the service's address, and ``key`` its key; RAGFlow's service has none. ``workers`` read its replies.
        """
        self._url = url.rstrip("/")
        self._http = http
        self._workers = workers or NoWorkers()
        self._limits = limits
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._healthy_until = 0.0

    async def run(self, request: CodeRequest) -> CodeResult:
        """Send a program to the service, which has its own limits."""
        if len(request.code) > self._limits.code_bytes:
            raise exceeded(self._limits, "code_bytes")
        await self.check_health()
        limit_s = self._limits.timeout_s + QUEUE_S
        body = write_request(request)
        message = HttpRequest("POST", f"{self._url}/run", self._headers, json=body, timeout_s=limit_s)
        try:
            response = await self._http.send(message)
        except ServiceError:
            self._healthy_until = 0.0
            raise
        if response.status != 200:
            raise ServiceError(f"HTTP {response.status}: {response.text[:_MAX_SHOWN_CHARS]}")
        try:
            return read_reply(await self._workers.run(parse_reply, response.text))
        except ForeignJsonError as error:
            raise ServiceError(f"The sandbox at {self._url} answered with unusable JSON: it {error}.") from None

    async def check_health(self) -> None:
        """Check that the service can run programs.

        Raises:
            ServiceError: if it is not reachable, or does not say so.
        """
        if time.monotonic() < self._healthy_until:
            return
        response = await self._http.send(HttpRequest("GET", f"{self._url}/healthz", self._headers, timeout_s=5.0))
        if response.status != 200:
            raise ServiceError(f"The sandbox at {self._url} is not healthy: it answered {response.status}.")
        self._healthy_until = time.monotonic() + HEALTHY_S
