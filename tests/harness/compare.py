"""Holding a played case against what it expects."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ragflow_lg.classification import CONVERSATION_HEAD, INSTRUCTIONS_HEAD
from ragflow_lg.structured_answer import SCHEMA_HEAD
from tests.harness.cases import Case
from tests.harness.play import TurnResult

_NODE_EVENTS = ("node_started", "node_finished")


def differences(case: Case, results: Sequence[TurnResult]) -> list[str]:
    """Say, turn by turn, what differs; nothing if the case passes."""
    found: list[str] = []
    for number, (expected, result) in enumerate(zip(case.data["expect"], results, strict=True)):
        problems = list(
            _quirk(case, number, expected, result) if case.is_quirk else _turn(case, number, expected, result)
        )
        found += [f"turn {number + 1}: {problem}" for problem in problems]
    return found


def _quirk(case: Case, number: int, expected: Mapping[str, Any], result: TurnResult) -> Iterator[str]:
    """The recorded result or the sane one will do; without a sane one the table of deviations decides."""
    answers = [expected.get("answer", ""), *_as_list((case.sane(number) or {}).get("answer"))]
    ends = [
        expected["events"][-1]["event"] if "events" in expected else "",
        (case.sane(number) or {}).get("last_event"),
    ]
    if result.answer not in answers:
        yield f"answer {result.answer!r}, expected one of {answers!r}"
    elif _last(result) not in ends:
        yield f"ends with {_last(result)!r}, expected one of {ends!r}"


def _turn(case: Case, number: int, expected: Mapping[str, Any], result: TurnResult) -> Iterator[str]:
    yield from _shown(case, number, expected, result)
    if "final_outputs" in expected:
        yield from _outputs(expected["final_outputs"], result)
    if "events" in expected:
        yield from _order(expected["events"], result)
        ours, theirs = _pieces(result.frames), _pieces(expected["events"])
        if any(turn.get("llm_script") for turn in case.data["turns"]) and ours != theirs:
            yield f"message pieces {ours!r}, expected {theirs!r}"
    if "history" in expected and (history := _plain(result.state["history"])) != expected["history"]:
        yield f"history {history!r}, expected {expected['history']!r}"
    if "globals" in expected:
        ours, theirs = _globals(result.state["globals"]), _globals(expected["globals"])
        if ours != theirs:
            yield f"globals {ours!r}, expected {theirs!r}"
    yield from _calls(expected, result)


def _shown(case: Case, number: int, expected: Mapping[str, Any], result: TurnResult) -> Iterator[str]:
    accepted: list[Any] = [expected["answer"]] if "answer" in expected else []
    if case.data.get("accept_answers"):
        accepted += case.data["accept_answers"][number]
    if accepted and result.answer not in accepted:
        yield f"answer {result.answer!r}, expected {accepted[0]!r} ({result.error or 'no error'})"
    if result.thinking != expected.get("thinking", ""):
        yield f"thinking {result.thinking!r}, expected {expected.get('thinking', '')!r}"
    if "events" in expected and _last(result) != expected["events"][-1]["event"]:
        yield f"ends with {_last(result)!r}, expected {expected['events'][-1]['event']!r}"
    if "last_event" in expected and _last(result) != expected["last_event"]:
        yield f"ends with {_last(result)!r}, expected {expected['last_event']!r}"
    if bool(expected.get("canvas_error")) != (result.error is not None):
        yield f"error {result.error!r}, expected {expected.get('canvas_error')!r}"


def _outputs(expected: Mapping[str, Any], result: TurnResult) -> Iterator[str]:
    """Compare the outputs of the components that ran, null like absent. Of an error only that there is one."""
    for node, outputs in result.state["outputs"].items():
        ours, theirs = _comparable(outputs), _comparable(expected.get(node, {}))
        if ours != theirs:
            yield f"outputs of {node!r} are {ours!r}, expected {theirs!r}"


def _comparable(outputs: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: bool(value) if key == "_ERROR" else value
        for key, value in outputs.items()
        if key not in ("next", "errors", "status_code", "headers") and value is not None
    }


def _order(expected: Sequence[Mapping[str, Any]], result: TurnResult) -> Iterator[str]:
    """Compare node events in order; nodes that are started together are free among themselves."""
    ours, theirs = _node_events(result.frames), _node_events(_without_dropped(expected))
    if sorted(ours) != sorted(theirs):
        yield f"node events {ours!r}, expected {theirs!r}"
        return
    for before, after in _must_follow(theirs):
        if ours.index(before) > ours.index(after):
            yield f"{before!r} comes after {after!r}, expected before"
            return


def _without_dropped(frames: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Leave out each ``node_started`` of a node that RAGFlow then dropped, because what it reads had not run yet.

    Such a node comes back with a second ``node_started`` or never; ours starts once, when it can run.
    """
    kept: list[Mapping[str, Any]] = []
    for index, frame in enumerate(frames):
        if frame["event"] == "node_started":
            node = frame["component_id"]
            following = [f["event"] for f in frames[index + 1 :] if f.get("component_id") == node]
            is_last = not following and frames[-1]["event"] == "workflow_finished"
            if following[:1] == ["node_started"] or is_last:
                continue
        kept.append(frame)
    return kept


def _node_events(frames: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, int]]:
    """Give ``(event, component, occurrence)`` of all node events."""
    seen: dict[tuple[str, str], int] = {}
    events: list[tuple[str, str, int]] = []
    for frame in frames:
        if frame["event"] in _NODE_EVENTS:
            key = (frame["event"], frame["component_id"])
            seen[key] = seen.get(key, 0) + 1
            events.append((*key, seen[key]))
    return events


def _must_follow(events: Sequence[tuple[str, str, int]]) -> Iterator[tuple[Any, Any]]:
    """Give pairs that have to keep their order: across batches, and start before finish.

    A batch is a run of ``node_started`` with the ``node_finished`` events up to the next one.
    """
    batches: list[list[tuple[str, str, int]]] = []
    previous = "node_finished"
    for event in events:
        if event[0] == "node_started" and previous == "node_finished":
            batches.append([])
        batches[-1].append(event)
        previous = event[0]
    for earlier, later in itertools.pairwise(batches):
        for before in earlier:
            for after in later:
                yield before, after
    for batch in batches:
        for event in batch:
            if event[0] == "node_finished" and ("node_started", event[1], event[2]) in batch:
                yield ("node_started", event[1], event[2]), event


def _pieces(frames: Sequence[Mapping[str, Any]]) -> list[str]:
    """Give the pieces of streamed text; neighbouring pieces of different messages stay apart."""
    return [frame["content"] for frame in frames if frame["event"] == "message" and frame["content"]]


def _calls(expected: Mapping[str, Any], result: TurnResult) -> Iterator[str]:
    if "llm_calls" in expected:
        ours = [_call(is_streaming, request) for is_streaming, request in result.model.requests]
        theirs = [{**call, "system": call["system"].strip()} for call in expected["llm_calls"]]
        if sorted(map(_key, ours)) != sorted(map(_key, theirs)):
            yield f"model calls {ours!r}, expected {theirs!r}"
    if "http_calls" in expected:
        ours_http = [(r.method, r.path, _body(r.body.decode("utf-8", "replace"))) for r in result.received]
        theirs_http = [(c["method"], c["path"], _body(c.get("body") or "")) for c in expected["http_calls"]]
        if sorted(map(str, ours_http)) != sorted(map(str, theirs_http)):
            yield f"http calls {ours_http!r}, expected {theirs_http!r}"


def _call(is_streaming: bool, request: Any) -> dict[str, Any]:
    """Write one of our requests as the recordings do, our own wording replaced by their markers."""
    system, messages = request.system, [dict(m) for m in request.messages]
    if system.startswith(INSTRUCTIONS_HEAD):
        system = "<categorize-instructions>"
        messages[0]["content"] = "<categorize-data> " + messages[0]["content"].removeprefix(CONVERSATION_HEAD)
    else:
        system = re.sub(
            rf"\n*{re.escape(SCHEMA_HEAD)}.*", "\n<structured-output-instructions>", system, flags=re.DOTALL
        )
    return {"stream": is_streaming, "system": system.strip(), "messages": messages, "gen_conf": dict(request.sampling)}


def _key(call: Mapping[str, Any]) -> str:
    return json.dumps(call, sort_keys=True, ensure_ascii=False)


def _body(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _globals(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in ("sys.date", "sys.history")}


def _plain(history: Sequence[Any]) -> list[Any]:
    return [list(entry) for entry in history]


def _last(result: TurnResult) -> str:
    return result.frames[-1]["event"] if result.frames else ""


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]
