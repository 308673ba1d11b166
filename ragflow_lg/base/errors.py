"""Every exception of the project.

::

    RagflowLgError                 has a stable ``code``
    ├── CompileError               a canvas is refused; holds all diagnostics
    ├── RunError                   something went wrong while a canvas ran; names the node
    │   ├── ComponentError         a component failed; becomes its ``_ERROR`` and never leaves a run
    │   ├── NodeTimeoutError       a node took longer than its limit
    │   ├── AnswerError            an answer does not fit the form that waits for it
    │   ├── InputRefusedError      a graph cannot take what it was given
    │   ├── CanvasChangedError     the canvas is not the one that the turn was started with
    │   ├── RunCancelled           somebody cancelled the run
    │   └── UndeclaredTargetError  a node chose a successor that the plan does not allow
    ├── ServiceError               a model, an HTTP server or a file store failed
    │   └── CassetteError          a recording cannot be read or written, or has no answer to what is asked
    ├── SettingsError              a setting is missing or wrong
    ├── DatabaseError              the server's database cannot be opened, read or written
    ├── RequestError               a request to the server is refused
    │   └── BusyError              somebody asks too much at once, or too often
    ├── StreamError                the events of a run cannot be followed, or not be kept
    │   ├── RunInterruptedError    the process that played the run stopped before the turn ended
    │   ├── RunUnknownError        nobody knows the run, or nobody does any more
    │   ├── StreamGapError         events that a follower still needs have been dropped
    │   └── StreamPositionError    the event to follow from is none of the run
    └── CheckpointError            a session cannot be read or written
        └── ConflictError          the session is not as it would have to be for what was sent
            └── SessionBusyError   somebody else runs the session
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ragflow_lg.base.diagnostics import Diagnostic

__all__ = [
    "AnswerError",
    "BusyError",
    "CanvasChangedError",
    "CassetteError",
    "CheckpointError",
    "CompileError",
    "ComponentError",
    "ConflictError",
    "DatabaseError",
    "InputRefusedError",
    "NodeTimeoutError",
    "RagflowLgError",
    "RequestError",
    "RunCancelled",
    "RunError",
    "RunInterruptedError",
    "RunUnknownError",
    "ServiceError",
    "SessionBusyError",
    "SettingsError",
    "StreamError",
    "StreamGapError",
    "StreamPositionError",
    "UndeclaredTargetError",
]

CANCELLED_TEXT = "Task has been canceled"
"""RAGFlow's text for a cancelled run; its clients compare it (source: ``agent/canvas.py``)."""


class RagflowLgError(Exception):
    """Base of every error the project raises on purpose."""

    code: ClassVar[str] = "error"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by attributes, so that constructors may take more than one argument."""
        return _revive, (type(self), self.args, self.__dict__)


def _revive(kind: type[RagflowLgError], args: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    error = kind.__new__(kind, *args)
    Exception.__init__(error, *args)
    error.__dict__.update(attributes)
    return error


class CompileError(RagflowLgError):
    """A canvas is refused. ``diagnostics`` holds everything that was found, warnings included."""

    code = "compile"

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        errors = [d for d in self.diagnostics if d.severity == "error"]
        lines = "\n".join(f"  {d}" for d in errors)
        super().__init__(f"The canvas has {len(errors)} error{'' if len(errors) == 1 else 's'}:\n{lines}")


class RunError(RagflowLgError):
    """A run failed in a way that is not the fault of one component's input.

    ``node`` is the id of the node concerned, or ``""``.
    """

    code = "run"

    def __init__(self, message: str, *, node: str = "") -> None:
        self.node = node
        super().__init__(message)


class ComponentError(RunError):
    """A component cannot do its work; the text becomes the node's ``_ERROR``."""

    code = "component"


class NodeTimeoutError(RunError):
    """A node took longer than its limit. ``limit_s`` is that limit in seconds."""

    code = "node-timeout"

    def __init__(self, node: str, limit_s: float) -> None:
        self.limit_s = limit_s
        super().__init__(f"The node did not finish within {limit_s:g} s and was stopped.", node=node)


class AnswerError(RunError):
    """An answer does not fit its form, which stays open. ``problems`` says what is wrong, by field.

    A field is ``NAME``, or ``COMPONENT@NAME`` where several forms are open; ``node`` is the first form concerned.
    """

    code = "answer-invalid"

    def __init__(self, problems: Mapping[str, str], *, node: str = "", advice: str = "") -> None:
        self.problems = dict(problems)
        super().__init__(" ".join([*self.problems.values(), *([advice] if advice else [])]), node=node)


class InputRefusedError(RunError, ValueError):
    """A graph cannot take what it was given.

    LangGraph's server shows its clients the text of a ValueError, and of hardly anything else.
    """

    code = "input-refused"


class CanvasChangedError(RunError):
    """A turn cannot go on because its canvas has changed."""

    code = "canvas-changed"


class RunCancelled(RunError):
    """The run was cancelled."""

    code = "cancelled"

    def __init__(self, node: str = "") -> None:
        super().__init__(CANCELLED_TEXT, node=node)


class UndeclaredTargetError(RunError):
    """A node chose a successor that its plan does not declare: a fault of the component's code."""

    code = "undeclared-target"

    def __init__(self, node: str, target: str) -> None:
        self.target = target
        super().__init__(f"Node {node!r} chose the undeclared successor {target!r}.", node=node)


class ServiceError(RagflowLgError):
    """A service outside the process failed.

    ``is_retryable`` says whether another try may help, ``retry_after_s`` when, as far as the service tells.
    """

    code = "service"

    def __init__(self, message: str, *, is_retryable: bool = False, retry_after_s: float = 0.0) -> None:
        self.is_retryable = is_retryable
        self.retry_after_s = retry_after_s
        super().__init__(message)


class CassetteError(ServiceError):
    """A recording of a run's traffic cannot be read or written, or has no answer to what is asked."""

    code = "cassette"


class SettingsError(RagflowLgError):
    """A setting is missing or wrong. The text names the setting and where it may be set."""

    code = "settings"


class DatabaseError(RagflowLgError):
    """The server's database cannot be opened, read or written."""

    code = "database"


class RequestError(RagflowLgError):
    """A request to the server is refused.

    ``number`` is RAGFlow's code of it, ``status`` what HTTP says for the same; ``data`` stands in RAGFlow's envelope
    where ``has_data`` is set. ``reason`` is the stable word of the native API, ``""`` for the one of the status.
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
    """Somebody asks too much at once, or too often; ``retry_s`` says in how many seconds to ask again."""

    code = "busy"

    def __init__(self, message: str, retry_s: float = 1.0) -> None:
        self.retry_s = retry_s
        super().__init__(message, 429, status=429)


class StreamError(RagflowLgError):
    """The events of a run cannot be followed, or not be kept."""

    code = "stream"


class RunInterruptedError(StreamError):
    """The process that played a run stopped before the turn had ended; the session can be continued."""

    code = "run-interrupted"


class RunUnknownError(StreamError):
    """Nobody knows a run, or nobody does any more."""

    code = "run-unknown"


class StreamGapError(StreamError):
    """Events that a follower still needs have been dropped. ``first`` is the number of the oldest that is kept."""

    code = "stream-gap"

    def __init__(self, message: str, *, first: int = 0) -> None:
        self.first = first
        super().__init__(message)


class StreamPositionError(StreamError):
    """The event to follow from is none of the run."""

    code = "stream-position"


class CheckpointError(RagflowLgError):
    """A session cannot be read or written."""

    code = "checkpoint"


class ConflictError(CheckpointError):
    """The request does not fit the session as it is: it is being run, or does not wait for this."""

    code = "conflict"


class SessionBusyError(ConflictError):
    """Somebody else runs the session. ``holder`` names the process, for people at this machine."""

    code = "session-busy"

    def __init__(self, message: str, holder: str = "") -> None:
        super().__init__(message)
        self.holder = holder
