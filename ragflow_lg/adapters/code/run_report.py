"""Reads what a sandboxed program reports. The program may be hostile: it can write to the pipe of its report itself."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Any, cast

from ragflow_lg.adapters.code.code_limits import CodeLimits, LimitName, exceeded
from ragflow_lg.adapters.code.sandbox_process import Ending
from ragflow_lg.base.errors import ComponentError, ServiceError
from ragflow_lg.base.values import JsonValue, to_json
from ragflow_lg.services.code import ARTIFACT_TYPES, Artifact, CodeResult

MAX_NAME_CHARS = 255
_LIMITS = frozenset(CodeLimits.__struct_fields__)


def read_ending(ending: Ending, limits: CodeLimits) -> CodeResult:
    """Return the result of a run.

    Raises:
        CodeLimitError: if it exceeded a limit.
        ServiceError: if the report is not one.
    """
    if ending.exceeded:
        raise exceeded(limits, ending.exceeded)
    lines = [_parse_line(line) for line in ending.report.splitlines()]
    artifacts: list[Artifact] = []
    has_value, value = False, None
    for line in lines:
        if (name := line.get("exceeded")) in _LIMITS:
            raise exceeded(limits, cast("LimitName", name), str(line.get("detail", "")))
        if "artifact" in line:
            artifacts.append(_read_artifact(line, limits))
        elif "value" in line:
            has_value, value = True, _read_value(line["value"], limits)
    if len(artifacts) > limits.artifacts:
        raise exceeded(limits, "artifacts")
    stdout, stderr = ending.stdout.decode("utf-8", "replace"), ending.stderr.decode("utf-8", "replace")
    return CodeResult(stdout, stderr, ending.exit_code, has_value, value, tuple(artifacts))


def _parse_line(line: bytes) -> Mapping[str, Any]:
    with suppress(ValueError, RecursionError):
        value: Any = json.loads(line)
        if isinstance(value, dict):
            return cast("Mapping[str, Any]", value)
    raise ServiceError("The code has damaged the report of its result.")


def _read_value(text: Any, limits: CodeLimits) -> JsonValue:
    """Return the value of ``main``. NaN and infinity become null, as everywhere in a canvas.

    Raises:
        CodeLimitError: if it is too large.
        ServiceError: if it is not JSON, or has too many levels or entries.
    """
    if not isinstance(text, str):
        raise ServiceError("The code has damaged the report of its result.")
    if len(text.encode("utf-8", "replace")) > limits.result_bytes:
        raise exceeded(limits, "result_bytes")
    try:
        return to_json(json.loads(text))
    except ComponentError as error:
        raise ServiceError(f"The value that main returned cannot be used: {error}") from None
    except (ValueError, RecursionError):
        raise ServiceError("The value that main returned cannot be used: it is nested too deeply.") from None


def _read_artifact(line: Mapping[str, Any], limits: CodeLimits) -> Artifact:
    """Return an artifact whose name is a relative path without ``..``.

    Raises:
        CodeLimitError: if its type or its size is not permitted.
        ServiceError: if its name or its content is invalid.
    """
    name, content = line.get("artifact"), line.get("content")
    if not isinstance(name, str) or not isinstance(content, str):
        raise ServiceError("The code has damaged the report of its result.")
    path = PurePosixPath(name)
    is_safe = name.isprintable() and "\\" not in name and 0 < len(name) <= MAX_NAME_CHARS
    if not is_safe or path.is_absolute() or ".." in path.parts:
        raise ServiceError(f"The artifact {name[:80]!r} has a name that cannot be used.")
    extension = path.suffix.lower()
    if extension not in limits.artifact_types:
        raise exceeded(limits, "artifact_types", name)
    try:
        data = base64.b64decode(content, validate=True)
    except ValueError:
        raise ServiceError("The code has damaged the report of its result.") from None
    if len(data) > limits.artifact_bytes:
        raise exceeded(limits, "artifact_bytes", name)
    return Artifact(name, ARTIFACT_TYPES.get(extension, "application/octet-stream"), data)
