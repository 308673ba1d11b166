"""All exceptions that the project raises.

::

    RagflowLgError                 has a stable ``code``
    ├── CompileError               a canvas is rejected; has all diagnostics
    ├── RunError                   a run failed; names the node
    │   ├── ComponentError         a component failed; becomes its ``_ERROR`` and never leaves a run
    │   │   └── NodeFailedError    a node of an ejected graph failed; has the outputs so far
    │   ├── NodeTimeoutError       a node took longer than its limit
    │   ├── AnswerError            an answer is not valid for the open form
    │   ├── InputRefusedError      a graph rejects its input
    │   ├── CanvasChangedError     the canvas has changed since the turn started
    │   ├── RunCancelled           the run was cancelled
    │   └── UndeclaredTargetError  a node chose a successor that the plan does not allow
    ├── ServiceError               a model, an HTTP server or a file store failed
    │   ├── RefusalError           RAGFlow's API understood a request and refused it
    │   ├── CassetteError          a recording cannot be read or written, or lacks the requested exchange
    │   ├── WorkLimitError         a worker process exceeded a limit
    │   └── CodeLimitError         code that CodeExec runs exceeded a limit; names the limit
    ├── SettingsError              a setting is missing or wrong
    ├── DatabaseError              the server's database cannot be opened, read or written
    ├── RequestError               the server rejects a request
    │   └── BusyError              a client exceeds its rate or concurrency limit
    │       ├── RateError          it sends requests too often
    │       └── QuotaError         a tenant, or a key of embedded pages, has used up a quota
    ├── StreamError                the events of a run cannot be followed or stored
    │   ├── RunInterruptedError    the process that executed the run stopped before the turn ended
    │   ├── RunAbandonedError      the run has ended too many processes and is not continued
    │   ├── RunUnknownError        the run does not exist or has expired
    │   ├── StreamGapError         events that a follower still needs were dropped
    │   └── StreamPositionError    the event to continue from does not belong to the run
    └── CheckpointError            a session cannot be read or written
        ├── DamagedSessionError    what the store has of a session is incomplete, or was changed by something else
        └── ConflictError          the state of the session does not allow the request
            └── SessionBusyError   another process runs the session
"""

from __future__ import annotations

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

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the attributes, so that constructors can accept several arguments."""
        return _revive, (type(self), self.args, self.__dict__)


def _revive(kind: type[RagflowLgError], args: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    error = kind.__new__(kind, *args)
    Exception.__init__(error, *args)
    error.__dict__.update(attributes)
    return error


class CompileError(RagflowLgError):
    """A canvas was rejected. ``diagnostics`` holds all findings, warnings included; ``file`` is its path, if known."""

    code = "compile"

    def __init__(self, diagnostics: Iterable[Diagnostic], *, file: str = "") -> None:
        self.diagnostics = tuple(diagnostics)
        self.file = file
        errors = [d for d in self.diagnostics if d.severity == "error"]
        lines = [f"  {d}" for d in errors[:MAX_LISTED_ERRORS]]
        if len(errors) > MAX_LISTED_ERRORS:
            lines.append(f"  and {len(errors) - MAX_LISTED_ERRORS:,} more")
        canvas = f"The canvas {file!r}" if file else "The canvas"
        super().__init__("\n".join([f"{canvas} has {len(errors)} error{'' if len(errors) == 1 else 's'}:", *lines]))


class RunError(RagflowLgError):
    """A run failed for a reason other than one component's input.

    ``node`` is the id of the node concerned, or ``""``.
    """

    code = "run"

    def __init__(self, message: str, *, node: str = "") -> None:
        self.node = node
        super().__init__(message)


class ComponentError(RunError):
    """A component failed; the text becomes the node's ``_ERROR``."""

    code = "component"


class NodeFailedError(ComponentError):
    """A node of an ejected graph failed. ``outputs`` are those that it has stored, with the text as ``_ERROR``."""

    code = "node-failed"

    def __init__(self, message: str, *, node: str = "", outputs: Mapping[str, Any] | None = None) -> None:
        self.outputs = dict(outputs or {})
        super().__init__(message, node=node)


class NodeTimeoutError(RunError):
    """A node took longer than its limit. ``limit_s`` is that limit in seconds."""

    code = "node-timeout"

    def __init__(self, node: str, limit_s: float) -> None:
        self.limit_s = limit_s
        super().__init__(f"The node did not finish within {limit_s:g} s and was stopped.", node=node)


class AnswerError(RunError):
    """An answer is not valid for its form, which stays open. ``problems`` maps fields to descriptions.

    A field is ``NAME``, or ``COMPONENT@NAME`` if several forms are open; ``node`` is the first form concerned.
    """

    code = "answer-invalid"

    def __init__(self, problems: Mapping[str, str], *, node: str = "", advice: str = "") -> None:
        self.problems = dict(problems)
        super().__init__(" ".join([*self.problems.values(), *([advice] if advice else [])]), node=node)


class InputRefusedError(RunError, ValueError):
    """A graph rejects its input.

    It is also a ValueError, because LangGraph's server hides the messages of most other errors from its clients.
    """

    code = "input-refused"


class CanvasChangedError(RunError):
    """A turn cannot continue because its canvas has changed."""

    code = "canvas-changed"


class RunCancelled(RunError):
    """The run was cancelled."""

    code = "cancelled"

    def __init__(self, node: str = "") -> None:
        super().__init__(CANCELLED_TEXT, node=node)


class UndeclaredTargetError(RunError):
    """A node chose a successor that its plan does not declare: a bug in the component."""

    code = "undeclared-target"

    def __init__(self, node: str, target: str) -> None:
        self.target = target
        super().__init__(f"Node {node!r} chose the undeclared successor {target!r}.", node=node)


class ServiceError(RagflowLgError):
    """An external service failed.

    ``is_retryable`` says whether another attempt might succeed, and ``retry_after_s`` how long to wait (0 if unknown).
    """

    code = "service"

    def __init__(self, message: str, *, is_retryable: bool = False, retry_after_s: float = 0.0) -> None:
        self.is_retryable = is_retryable
        self.retry_after_s = retry_after_s
        super().__init__(message)


def pause_before_retry(error: BaseException, delay_s: float) -> float:
    """Return how long to wait before the next attempt: ``delay_s``, or longer if a busy service asks for it.

    >>> pause_before_retry(ServiceError("busy", retry_after_s=5.0), 2.0), pause_before_retry(TimeoutError(), 2.0)
    (5.0, 2.0)
    """
    asked_s = error.retry_after_s if isinstance(error, ServiceError) else 0.0
    return max(delay_s, min(asked_s, MAX_RETRY_PAUSE_S))


class RefusalError(ServiceError):
    """A RAGFlow server understood a request and refused it. ``api_code`` is RAGFlow's code, or the HTTP status."""

    code = "refusal"

    def __init__(
        self, message: str, api_code: int = 0, *, is_unknown_route: bool = False, is_retryable: bool = False
    ) -> None:
        super().__init__(message, is_retryable=is_retryable)
        self.api_code = api_code
        self.is_unknown_route = is_unknown_route
        """Whether the server has no such route, because it is older or newer."""


class CassetteError(ServiceError):
    """A recording cannot be read or written, or lacks the requested exchange."""

    code = "cassette"


class WorkLimitError(ServiceError):
    """Work took too much time or memory, ended its process, or waits in too long a queue. The message says which."""

    code = "work-limit"


class CodeLimitError(ServiceError):
    """Code that CodeExec runs exceeded a limit. ``limit`` is the name of its setting in ``[code]``."""

    code = "code-limit"

    def __init__(self, message: str, limit: str) -> None:
        super().__init__(message)
        self.limit = limit


class SettingsError(RagflowLgError):
    """A setting is missing or wrong. The message names the setting and says where it can be set."""

    code = "settings"


class DatabaseError(RagflowLgError):
    """The server's database cannot be opened, read or written."""

    code = "database"


class RequestError(RagflowLgError):
    """The server rejects a request.

    ``number`` is RAGFlow's error code, ``status`` the HTTP status; ``data`` is sent in RAGFlow's envelope if
    ``has_data`` is set. ``reason`` is the native API's stable error name, or ``""`` for the status's default.
    """

    code = "request"

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


class BusyError(RequestError):
    """A client exceeds its rate or concurrency limit; ``retry_s`` is the number of seconds to wait."""

    code = "busy"

    def __init__(self, message: str, retry_s: float = 1.0) -> None:
        self.retry_s = retry_s
        super().__init__(message, 429, status=429)


class RateError(BusyError):
    """A client sends requests too often."""

    code = "rate"

    def __init__(self, message: str, retry_s: float = 1.0) -> None:
        super().__init__(f"{message} Try again later.", retry_s)


class QuotaError(BusyError):
    """A tenant, or a key of embedded pages, has used up a quota.

    ``quota`` is its name, for example ``turns_day``. ``renews_s`` is the number of seconds until the quota is renewed,
    or 0 if something has to be deleted first.
    """

    code = "quota"

    def __init__(self, quota: str, limit: float, owner: str, advice: str, *, renews_s: float = 0.0) -> None:
        super().__init__(f"The {owner} has used up its quota {quota} of {limit:,}. {advice}", renews_s or 3600.0)
        self.quota = quota
        self.limit = limit
        self.renews_s = renews_s
        self.reason = "quota-exceeded"


class StreamError(RagflowLgError):
    """The events of a run cannot be followed or stored."""

    code = "stream"


class RunInterruptedError(StreamError):
    """The process that executed a run stopped before the turn ended; the session can be continued."""

    code = "run-interrupted"


class RunAbandonedError(StreamError):
    """Every process that executed a run died, and no other one continues it; the session can be continued by hand."""

    code = "run-abandoned"


class RunUnknownError(StreamError):
    """The run does not exist or has expired."""

    code = "run-unknown"


class StreamGapError(StreamError):
    """Events that a follower still needs were dropped. ``first`` is the oldest stored event's number."""

    code = "stream-gap"

    def __init__(self, message: str, *, first: int = 0) -> None:
        self.first = first
        super().__init__(message)


class StreamPositionError(StreamError):
    """The event to continue from does not belong to the run."""

    code = "stream-position"


class CheckpointError(RagflowLgError):
    """A session cannot be read or written."""

    code = "checkpoint"


class DamagedSessionError(CheckpointError):
    """What the store has of one session is incomplete, or was changed by something else."""

    code = "session-damaged"


class NewerSessionError(DamagedSessionError):
    """A newer version has written the session, in a format that this version does not know."""

    code = "session-newer"


class SessionKeyError(DamagedSessionError):
    """Stored data is encrypted with a key that is not in the settings, or has another value there."""

    code = "session-key"


class SessionFileError(CheckpointError):
    """A line of a file with exported sessions cannot be imported."""

    code = "session-file"


class ConflictError(CheckpointError):
    """The session's state does not allow the request: it is running, or is not waiting for this input."""

    code = "conflict"


class SessionBusyError(ConflictError):
    """Another process runs the session. ``holder`` describes that process to a user on this machine."""

    code = "session-busy"

    def __init__(self, message: str, holder: str = "") -> None:
        super().__init__(message)
        self.holder = holder
