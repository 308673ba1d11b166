"""All exceptions that the project raises.

Each has a stable ``code``, which ``docs/diagnostics.md`` explains. Those of one run derive from `RunError`, those of
services from `ServiceError`, of requests from `RequestError`, of streams from `StreamError`, and of sessions from
`CheckpointError`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ragflow_lg.base.diagnostics import Diagnostic

CANCELLED_TEXT = "Task has been canceled"
"""RAGFlow's text for a cancelled run; its clients check for this exact text (source: ``agent/canvas.py``)."""

MAX_RETRY_PAUSE_S = 60.0
"""The longest pause before a retry that a service can ask for."""

MAX_LISTED_ERRORS = 50
"""How many errors of a canvas the text of a `CompileError` lists. Each short line of a canvas can cause a long one."""


class RagflowLgError(Exception):
    """The base class of all errors that the project raises deliberately."""

    code: ClassVar[str] = "error"
    """The stable name of a class; one without the keyword ``code`` has that of its base."""

    def __init_subclass__(cls, *, code: str = "") -> None:
        cls.code = code or cls.code

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the attributes, so that constructors can accept several arguments."""
        return _revive, (type(self), self.args, self.__dict__)


def _revive(kind: type[RagflowLgError], args: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    error = kind.__new__(kind, *args)
    Exception.__init__(error, *args)
    error.__dict__.update(attributes)
    return error


class CompileError(RagflowLgError, code="compile"):
    """A canvas was rejected. ``diagnostics`` holds all findings, warnings included; ``file`` is its path, if known."""

    def __init__(self, diagnostics: Iterable[Diagnostic], *, file: str = "") -> None:
        self.diagnostics = tuple(diagnostics)
        self.file = file
        errors = [d for d in self.diagnostics if d.severity == "error"]
        lines = [f"  {d}" for d in errors[:MAX_LISTED_ERRORS]]
        if len(errors) > MAX_LISTED_ERRORS:
            lines.append(f"  and {len(errors) - MAX_LISTED_ERRORS:,} more")
        canvas = f"The canvas {file!r}" if file else "The canvas"
        super().__init__("\n".join([f"{canvas} has {len(errors)} error{'' if len(errors) == 1 else 's'}:", *lines]))


class RunError(RagflowLgError, code="run"):
    """A run failed for a reason other than one component's input.

    ``node`` is the id of the node concerned, or ``""``.
    """

    def __init__(self, message: str, *, node: str = "") -> None:
        self.node = node
        super().__init__(message)


class ComponentError(RunError, code="component"):
    """A component failed; the text becomes the node's ``_ERROR``."""


class NodeTimeoutError(RunError, code="node-timeout"):
    """A node took longer than its limit. ``limit_s`` is that limit in seconds."""

    def __init__(self, node: str, limit_s: float) -> None:
        self.limit_s = limit_s
        super().__init__(f"The node did not finish within {limit_s:g} s and was stopped.", node=node)


class AnswerError(RunError, code="answer-invalid"):
    """An answer is not valid for its form, which stays open. ``problems`` maps fields to descriptions.

    A field is ``NAME``, or ``COMPONENT@NAME`` if several forms are open; ``node`` is the first form concerned.
    """

    def __init__(self, problems: Mapping[str, str], *, node: str = "", advice: str = "") -> None:
        self.problems = dict(problems)
        super().__init__(" ".join([*self.problems.values(), *([advice] if advice else [])]), node=node)


class InputRefusedError(RunError, ValueError, code="input-refused"):
    """A graph rejects its input.

    It is also a ValueError, because LangGraph's server hides the messages of most other errors from its clients.
    """


class CanvasChangedError(RunError, code="canvas-changed"):
    """A turn cannot continue because its canvas has changed."""


class RunCancelled(RunError, code="cancelled"):
    """The run was cancelled."""

    def __init__(self, node: str = "") -> None:
        super().__init__(CANCELLED_TEXT, node=node)


class ApprovalNeeded(RunCancelled, code="approval-needed"):
    """A call waits for the user's approval. The node of the session's canvas stops, and runs again with the answer."""


class RunFailedError(RunError, code="run-failed"):
    """The error of a component has stopped the turn. ``node`` is its id, and ``cause`` the text of its error."""

    def __init__(self, cause: str, *, node: str = "", title: str = "") -> None:
        self.cause = cause or "The run failed."
        place = f"{title or node} failed: " if node else ""
        super().__init__(f"{place}{self.cause}", node=node)


class UndeclaredTargetError(RunError, code="undeclared-target"):
    """A node chose a successor that its plan does not declare: a bug in the component."""

    def __init__(self, node: str, target: str) -> None:
        self.target = target
        super().__init__(f"Node {node!r} chose the undeclared successor {target!r}.", node=node)


class ServiceError(RagflowLgError, code="service"):
    """An external service failed.

    ``is_retryable`` says whether another attempt might succeed, and ``retry_after_s`` how long to wait (0 if unknown).
    """

    status: int = 0
    """The HTTP status with which the service refused the request, if that is known."""
    refused: str = ""
    """Which part of the request a model does not take: ``context_tokens`` for its length, ``has_vision`` for images."""

    def __init__(self, message: str, *, is_retryable: bool = False, retry_after_s: float = 0.0) -> None:
        self.is_retryable = is_retryable
        self.retry_after_s = retry_after_s
        super().__init__(message)


def parse_retry_after(header: str) -> float:
    """Return the seconds in a header ``Retry-After``; 0 if it has none. Dates are ignored: the clocks may differ."""
    try:
        seconds = float(header)
    except ValueError:
        return 0.0
    return seconds if 0 < seconds < math.inf else 0.0


def pause_before_retry(error: BaseException, delay_s: float) -> float:
    """Return how long to wait before the next attempt: ``delay_s``, or longer if a busy service asks for it.

    >>> pause_before_retry(ServiceError("busy", retry_after_s=5.0), 2.0), pause_before_retry(TimeoutError(), 2.0)
    (5.0, 2.0)
    """
    asked_s = error.retry_after_s if isinstance(error, ServiceError) else 0.0
    return max(delay_s, min(asked_s, MAX_RETRY_PAUSE_S))


class RefusalError(ServiceError, code="refusal"):
    """A RAGFlow server understood a request and refused it. ``api_code`` is RAGFlow's code, or the HTTP status."""

    def __init__(
        self, message: str, api_code: int = 0, *, is_unknown_route: bool = False, is_retryable: bool = False
    ) -> None:
        super().__init__(message, is_retryable=is_retryable)
        self.api_code = api_code
        self.is_unknown_route = is_unknown_route
        """Whether the server has no such route, because it is older or newer."""


class CassetteError(ServiceError, code="cassette"):
    """A recording cannot be read or written, or lacks the requested exchange."""


class ForeignJsonError(ServiceError, code="foreign-json"):
    """JSON from outside is not valid, or exceeds a limit. The message completes a sentence: ``is not valid``."""


class WorkLimitError(ServiceError, code="work-limit"):
    """Work took too much time or memory, ended its process, or waits in too long a queue. The message says which."""


class CodeLimitError(ServiceError, code="code-limit"):
    """Code that CodeExec runs exceeded a limit. ``limit`` is the name of its setting in ``[code]``."""

    def __init__(self, message: str, limit: str) -> None:
        super().__init__(message)
        self.limit = limit


class SettingsError(RagflowLgError, code="settings"):
    """A setting is missing or wrong. The message names the setting and says where it can be set."""


class DatabaseError(RagflowLgError, code="database"):
    """The server's database cannot be opened, read or written."""


class RequestError(RagflowLgError, code="request"):
    """The server rejects a request.

    ``number`` is RAGFlow's error code, ``status`` the HTTP status; ``data`` is sent in RAGFlow's envelope if
    ``has_data`` is set. ``reason`` is the native API's stable error name, or ``""`` for the status's default.
    """

    def __init__(
        self,
        message: str,
        number: int = 102,
        *,
        status: int = 400,
        data: Any = None,
        has_data: bool = False,
        reason: str = "",
    ) -> None:
        self.number = number
        self.reason = reason
        self.status = status
        self.data = data
        self.has_data = has_data
        super().__init__(message)


class BusyError(RequestError, code="busy"):
    """A client exceeds its rate or concurrency limit; ``retry_s`` is the number of seconds to wait."""

    def __init__(self, message: str, retry_s: float = 1.0) -> None:
        self.retry_s = retry_s
        super().__init__(message, 429, status=429)


class RateError(BusyError, code="rate"):
    """A client sends requests too often."""

    def __init__(self, message: str, retry_s: float = 1.0) -> None:
        super().__init__(f"{message} Try again later.", retry_s)


class QuotaError(BusyError, code="quota"):
    """A tenant, or a key of embedded pages, has used up a quota.

    ``quota`` is its name, for example ``tokens_day``. ``renews_s`` is the number of seconds until the quota is renewed,
    or 0 if something has to be deleted first.
    """

    def __init__(self, quota: str, limit: float, owner: str, advice: str, *, renews_s: float = 0.0) -> None:
        super().__init__(f"The {owner} has used up its quota {quota} of {limit:,}. {advice}", renews_s or 3600.0)
        self.quota = quota
        self.limit = limit
        self.renews_s = renews_s
        self.reason = "quota-exceeded"


class StreamError(RagflowLgError, code="stream"):
    """The events of a run cannot be followed or stored."""


class StreamInterruptedError(StreamError, code="run-interrupted"):
    """The process that executed a run stopped before the turn ended; the session can be continued."""


class StreamAbandonedError(StreamError, code="run-abandoned"):
    """Every process that executed a run died, and no other one continues it; the session can be continued by hand."""


class StreamUnknownError(StreamError, code="run-unknown"):
    """The run does not exist or has expired."""


class StreamGapError(StreamError, code="stream-gap"):
    """Events that a follower still needs were dropped. ``first`` is the oldest stored event's number."""

    def __init__(self, message: str, *, first: int = 0) -> None:
        self.first = first
        super().__init__(message)


class StreamPositionError(StreamError, code="stream-position"):
    """The event to continue from does not belong to the run."""


class CheckpointError(RagflowLgError, code="checkpoint"):
    """A session cannot be read or written."""


class DamagedSessionError(CheckpointError, code="session-damaged"):
    """What the store has of one session is incomplete, or was changed by something else."""


class SessionFormatError(DamagedSessionError, code="session-format"):
    """Another version has written the session, in a format that this version does not know."""


class SessionKeyError(DamagedSessionError, code="session-key"):
    """Stored data is encrypted with a key that is not in the settings, or has another value there."""


class SessionFileError(CheckpointError, code="session-file"):
    """A line of a file with exported sessions cannot be imported."""


class ConflictError(CheckpointError, code="conflict"):
    """The session's state does not allow the request: it is running, or is not waiting for this input."""


class SessionBusyError(ConflictError, code="session-busy"):
    """Another process runs the session. ``holder`` describes that process to a user on this machine."""

    def __init__(self, message: str, holder: str = "") -> None:
        super().__init__(message)
        self.holder = holder


HIDDEN = "***"
MIN_SECRET_CHARS = 3
"""Shorter secrets are not replaced: they would occur in ordinary words."""


def foreign_line(text: str, secrets: Iterable[str], max_chars: int) -> str:
    """Return the beginning of a text as one line, without secrets.

    >>> foreign_line("no user   'root' with my secret", ["secret", ""], 100)
    "no user 'root' with my ***"
    """
    for secret in sorted(set(secrets), key=len, reverse=True):
        if len(secret) >= MIN_SECRET_CHARS:
            text = text.replace(secret, HIDDEN)
    return " ".join(text[: 10 * max_chars].split())[:max_chars]
