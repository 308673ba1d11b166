"""Frames and single answers as RAGFlow 1.0 sends them. ``docs/ragflow_1.md`` has a row for each field."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from ragflow_lg.base.errors import CANCELLED_TEXT
from ragflow_lg.runs.wire.wire_events import (
    AnswerText,
    MessageEnd,
    UserInputs,
    WireNodeFinished,
    WireNodeStarted,
    WorkflowFinished,
    WorkflowStarted,
)
from ragflow_lg.server.http.ragflow.ragflow_frames import AnswerCollector, Forwarding, FrameBuilder, build_error_frame
from ragflow_lg.server.http.shared.ragflow_1 import CANCELLED, describe_form, list_reference

if TYPE_CHECKING:
    from ragflow_lg.runs.wire.wire_events import Envelope, WireEvent


class FrameBuilder1(FrameBuilder):
    """A builder for the frames of 1.0. It needs all events of a turn, because ``message_end`` is sent once."""

    def __init__(self, envelope: Envelope, forwarding: Forwarding, *, asked: Any, now_ms: Callable[[], int]) -> None:
        """Initialize. ``asked`` is what the user sent: a text, or fields of a form."""
        super().__init__(envelope, "page" if forwarding == "page" else "all", has_trace=False)
        self._asked = asked
        self._now_ms = now_ms
        self._answer = AnswerText("tagged")
        self._ends: list[dict[str, Any]] = []
        self.downloads: list[Any] = []
        """The files of all Messages."""

    def build(self, event: WireEvent) -> list[dict[str, Any]]:
        """Return the frames for an event that the client receives."""
        self.has_ended = self.has_ended or isinstance(event, UserInputs | WorkflowFinished)
        self._answer.feed(event)
        if isinstance(event, MessageEnd):
            extras: dict[str, Any] = dict(event.data())
            self.downloads += extras.pop("downloads", None) or []
            self._ends.append(extras)
            return []
        if isinstance(event, UserInputs):
            starts = [self._wrap("node_started", self._start_form(node)) for node in event.nodes[:1]]
            shown = [] if self.forwarding == "page" else starts
            form = describe_form(event) | self._list_downloads()
            return [*self._end_message(), *shown, self._wrap("waiting_for_user", form)]
        if isinstance(event, WorkflowFinished):
            if event.outputs == CANCELLED_TEXT:
                ends = [frame for frame in self._end_message() if frame["data"]]  # 1.0 sends none
                return [*ends, self._wrap("cancelled", {"message": CANCELLED} | self._list_downloads())]
            return [*self._end_message(), self._wrap(event.event, self._finish(event))]
        if self._sent and not isinstance(event, self._sent):
            return []
        return [self._wrap(event.event, self._describe(event))]

    def build_empty(self) -> dict[str, Any]:
        """Return the frame of a turn without events."""
        frame = self._wrap("", {})
        return {name: frame[name] for name in ("created_at", "data", "session_id", "task_id")}

    def build_failure(self, message: str, prefix: str, *, is_of_run: bool) -> list[dict[str, Any]]:
        """Return the frame for an error."""
        return [build_error_frame(message, self.envelope.session_id)]

    def _wrap(self, event: str, data: dict[str, Any]) -> dict[str, Any]:
        return {
            "created_at": self._now_ms() // 1000,
            "data": data,
            "event": event,
            "message_id": self.envelope.message_id,
            "session_id": self.envelope.session_id,
            "task_id": self.envelope.task_id,
        }

    def _describe(self, event: WireEvent) -> dict[str, Any]:
        data: dict[str, Any] = dict(event.data())
        if isinstance(event, WorkflowStarted):
            data["inputs"] = self._asked
        elif isinstance(event, WireNodeStarted):
            data |= {"inputs": {}, "created_at": float(event.created_at), "component_name": event.component_type}
        elif isinstance(event, WireNodeFinished):
            data |= {"outputs": event.outputs, "component_name": event.component_type}
        return data

    def _start_form(self, node: str) -> dict[str, Any]:
        start = WireNodeStarted(node, "UserFillUp", "UserFillUp", self._now_ms() // 1000)
        return self._describe(start)

    def _end_message(self) -> list[dict[str, Any]]:
        """Return the end of all Messages, if there was any."""
        if not self._ends:
            return []
        data = {name: value for extras in self._ends for name, value in extras.items() if value}
        if reference := self._answer.reference:
            data["reference"] = list_reference(reference)
        self._ends.clear()
        return [self._wrap("message_end", data)]

    def _list_downloads(self) -> dict[str, Any]:
        return {"downloads": self.downloads} if self.downloads else {}

    def _finish(self, event: WorkflowFinished) -> dict[str, Any]:
        text, downloads = self._answer.text, self._list_downloads()
        outputs = {"content": text, **downloads} if downloads else text
        data = {**event.data(), "inputs": {"query": self._asked}, "outputs": outputs}
        if self.forwarding == "page":  # visitors do not learn what a turn costs
            del data["usage"]
        return data


class AnswerCollector1(AnswerCollector):
    """Collects a turn's frames for clients of 1.0 that do not stream."""

    def __init__(self, frames: FrameBuilder1, *, has_trace: bool) -> None:
        super().__init__(frames.envelope, frames.forwarding, has_trace=has_trace)
        self._frames = frames
        self._shown: dict[str, Any] | None = None
        self._is_first = True

    def feed(self, event: WireEvent) -> None:
        """Add the next event. A form or a cancellation counts more than the end of the message, unlike in 1.0."""
        super().feed(event)
        for frame in self._frames.build(event):
            is_main = frame["event"] in ("message_end", "waiting_for_user", "cancelled")
            if is_main and self._shown is not None and self._shown["event"] == "message_end":
                frame["data"] = {**self._shown["data"], **frame["data"]}
            if is_main or (self._is_first and frame["event"] != WorkflowFinished.event):
                self._shown, self._is_first = frame, False

    def build_answer(self) -> dict[str, Any]:
        """Return the outer ``data`` of the answer."""
        if self._shown is None:
            return {"session_id": self.envelope.session_id}
        data = cast("dict[str, Any]", self._shown["data"])
        data |= {"content": self.answer.text, "reference": list_reference(self.answer.reference)}
        if self._frames.downloads:
            data["downloads"] = self._frames.downloads
        if self.forwarding == "page":
            return self._shown
        more = {"structured": self.structured, "usage": self.usage, "trace": self.trace if self.has_trace else None}
        data |= {name: value for name, value in more.items() if value is not None and value != {}}
        return self._shown
