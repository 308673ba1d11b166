"""Reports of model calls: the prompts as they were sent, the answer, the time and the tokens."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.events import ModelCalled
from ragflow_lg.services.chat import ONE_CALL, ChatAnswer, ChatModel, ChatRequest

if TYPE_CHECKING:
    from ragflow_lg.component.context import RunContext
    from ragflow_lg.dsl.redacted_view import RedactedView

MAX_SYSTEM_CHARS = 30_000
MAX_MESSAGES_CHARS = 30_000
MAX_ANSWER_CHARS = 20_000
MAX_ERROR_CHARS = 2_000
MAX_NAMES = 100
"""How many tools, and how many calls of one answer, are reported."""


class CallReport:
    """The report of one model call, as a context manager. It is emitted when the call has ended, also if it failed.

    The prompts are those of the request: after references were filled in, and history was fitted into the context.
    """

    def __init__(self, ctx: RunContext, model: ChatModel, request: ChatRequest) -> None:
        self._ctx = ctx
        self._model = model
        self._request = request
        self._clock = ctx.services.clock
        self._created_at = self._began = 0.0
        self.answer = ChatAnswer("", (), ONE_CALL)
        """What has arrived of the answer. The caller sets it."""

    def __enter__(self) -> CallReport:
        self._created_at, self._began = self._clock.now(), self._clock.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        ctx = self._ctx
        if not ctx.is_observed:
            return
        seconds = self._clock.monotonic() - self._began
        details = self._describe("" if error is None else str(error) or type(error).__name__)
        event = ModelCalled(
            ctx.owner, ctx.node.id, ctx.visit, ctx.place, self._created_at, seconds, self.answer.usage, details
        )
        ctx.report(event)

    def _describe(self, error: str) -> dict[str, JsonValue]:
        request, view = self._request, self._ctx.redacted_view
        llm_id = getattr(self._ctx.node.params, "llm_id", "") or ""
        calls: list[Any] = [{"name": call.name, "arguments": call.arguments} for call in self.answer.calls[:MAX_NAMES]]
        return {
            "model": view.text(str(getattr(self._model, "name", "") or llm_id or "default"), 200),
            "system": view.text(request.system, MAX_SYSTEM_CHARS),
            "messages": _view_messages(view, request.messages),
            "images": len(request.images),
            "tools": [view.text(tool.name, 200) for tool in request.tools[:MAX_NAMES]],
            "sampling": dict(request.sampling),
            "answer": view.text(self.answer.text, MAX_ANSWER_CHARS),
            "calls": view.value(calls),
            "error": view.text(error, MAX_ERROR_CHARS),
        }


def _view_messages(view: RedactedView, messages: tuple[Any, ...]) -> list[JsonValue]:
    """Return the messages without secrets. If they are too long, the oldest ones are cut."""
    return [*reversed(cast("list[JsonValue]", view.value(messages[::-1], MAX_MESSAGES_CHARS)))]
