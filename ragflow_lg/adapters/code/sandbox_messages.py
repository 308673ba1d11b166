"""The messages of RAGFlow's sandbox service: the request and the reply of ``POST /run``, in both directions.

Source: RAGFlow's ``agent/sandbox/executor_manager/models/schemas.py``.
"""

from __future__ import annotations

import base64
import signal
from collections.abc import Mapping
from typing import Any, cast

from ragflow_lg.base.errors import CodeLimitError, RagflowLgError, ServiceError, WorkLimitError
from ragflow_lg.base.values import JsonValue, to_json
from ragflow_lg.services.code import Artifact, CodeRequest, CodeResult, Language

SERVICE_LANGUAGES: Mapping[Language, str] = {"python": "python", "javascript": "nodejs"}
"""The service's names of the languages."""

_EXIT_CODES = {"timeout_s": -124, "cpu_s": -124, "memory_bytes": -137}
_LIMIT_TYPES = {"timeout_s": "time", "cpu_s": "time", "memory_bytes": "memory", "output_bytes": "output"}
_INTERNAL_ERROR = -3
_BUSY = -10
_REFUSED = ("Permission denied", "Operation not permitted")


def write_request(request: CodeRequest) -> dict[str, JsonValue]:
    """Return a request as the service reads it."""
    code = base64.b64encode(request.code.encode("utf-8", "replace")).decode("ascii")
    return {"code_b64": code, "language": SERVICE_LANGUAGES[request.language], "arguments": dict(request.arguments)}


def read_reply(reply: Any) -> CodeResult:
    """Return the result in a reply. Its fields may be missing, or null.

    Raises:
        ServiceError: if it is not a reply.
    """
    if not isinstance(reply, Mapping):
        raise ServiceError("The sandbox answered without a JSON object.")
    fields = cast("Mapping[str, Any]", reply)
    result: Any = fields.get("result")
    structured: Mapping[str, Any] = cast("Mapping[str, Any]", result) if isinstance(result, Mapping) else {}
    has_value = structured.get("present") is True
    exit_code, artifacts = fields.get("exit_code"), fields.get("artifacts")
    return CodeResult(
        stdout=_text(fields.get("stdout")),
        stderr=_text(fields.get("stderr")),
        exit_code=exit_code if isinstance(exit_code, int) else 0,
        has_value=has_value,
        value=to_json(structured.get("value")) if has_value else None,
        artifacts=tuple(_read_artifacts(cast("list[Any]", artifacts) if isinstance(artifacts, list) else [])),
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _read_artifacts(artifacts: list[Any]) -> list[Artifact]:
    """Return the artifacts that have a name and content, as RAGFlow does."""
    read: list[Artifact] = []
    for artifact in artifacts:
        fields: Mapping[str, Any] = cast("Mapping[str, Any]", artifact) if isinstance(artifact, Mapping) else {}
        name, content = _text(fields.get("name")), _text(fields.get("content_b64"))
        if name and content:
            try:
                data = base64.b64decode(content, validate=True)
            except ValueError:
                raise ServiceError(f"The sandbox answered with a damaged artifact {name[:80]!r}.") from None
            read.append(Artifact(name, _text(fields.get("mime_type")) or "application/octet-stream", data))
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
