"""Rules for the frames of every turn of any canvas."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ragflow_lg.runs.wire.wire_events import message_frames


def apply_resets(frames: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the frames as a client shows them: ``message_reset`` replaces the text of the current Message."""
    shown: list[dict[str, Any]] = []
    for frame in frames:
        if frame["event"] != "message_reset":
            shown.append(frame)
            continue
        end = max((at for at, f in enumerate(shown) if f["event"] == "message_end"), default=-1)
        shown = [f for at, f in enumerate(shown) if at <= end or f["event"] != "message"]
        shown += [{"event": "message", **kept.data()} for kept in message_frames(frame["content"])]
    return shown


def find_frame_problems(
    frames: Sequence[Mapping[str, Any]], *, has_failed: bool, is_resumed: bool = False
) -> list[str]:
    """Return the violations of the rules.

    A turn starts with ``workflow_started``, unless it answers a form. A node starts before it ends. Text arrives only
    while a node runs, and each Message ends before the next. A turn without error ends with ``workflow_finished``,
    after the ends of all nodes, or with ``user_inputs``.
    """
    problems: list[str] = []
    running: list[str] = []
    is_open = False
    for index, frame in enumerate(frames):
        kind = frame["event"]
        if (kind == "workflow_started") != (index == 0 and not is_resumed):
            problems.append(f"{kind} is frame {index}")
        if kind == "workflow_finished" and index != len(frames) - 1:
            problems.append("workflow_finished is not the last frame")
        if kind == "node_started":
            running.append(frame["component_id"])
        elif kind == "node_finished":
            if frame["component_id"] in running:
                running.remove(frame["component_id"])
            elif not is_resumed:
                problems.append(f"{frame['component_id']!r} ends without having started")
        elif kind in ("message", "message_end"):
            is_open = kind == "message"
            if not running:
                problems.append(f"{kind} while no node runs")
    if not has_failed:
        is_waiting = bool(frames) and frames[-1]["event"] == "user_inputs"
        # A region that waits has started and not ended. It ends after the answer, without another start.
        problems += [f"{node!r} never ends" for node in running if not is_waiting]
        if is_open:
            problems.append("a Message is not closed")
        if frames and frames[-1]["event"] not in ("workflow_finished", "user_inputs"):
            problems.append(f"ends with {frames[-1]['event']}")
    return problems


def answer_pieces(frames: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the pieces of all Messages outside thinking sections."""
    pieces: list[str] = []
    is_thinking = False
    for frame in frames:
        if frame["event"] == "message":
            is_thinking = (is_thinking or "start_to_think" in frame) and "end_to_think" not in frame
            pieces += [] if is_thinking else [frame["content"]]
        elif frame["event"] == "message_end":
            is_thinking = False
    return pieces
