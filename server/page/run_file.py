"""The run file: a stored session as one HTML file that opens without a server.

It has the turns of the session, the state at every step, the conversation, and the calls of agents, without secrets.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from html import escape
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import orjson

from ragflow_lg.base.values import JsonValue, to_text
from ragflow_lg.component.plan import find_stored_secrets
from ragflow_lg.component.state import OPERATIONS
from ragflow_lg.dsl.redacted_view import RedactedView
from ragflow_lg.dsl.redaction import REDACTED, Redactor, is_secret_name
from ragflow_lg.runs.pauses import open_pauses
from ragflow_lg.runs.stored_steps import CheckpointInfo, StoredSteps
from ragflow_lg.server import page
from ragflow_lg.server.page.joined_scripts import join_scripts

if TYPE_CHECKING:
    from ragflow_lg.checkpoints import Store
    from ragflow_lg.engine.compiled_canvas import CompiledCanvas
    from ragflow_lg.services.sessions import RunRecord


MAX_BYTES = 20_000_000
LEFT_OUT = "… (left out: the file has reached its largest size)"


class SharedValues:
    """Values by number. A state names the numbers, because most of its values are those of the state before."""

    def __init__(self, view: RedactedView, max_bytes: int = MAX_BYTES) -> None:
        self.values: list[JsonValue] = []
        self.cut = 0
        """How many values are not complete."""
        self._view = view
        self._left = max_bytes
        self._numbers: dict[bytes, int] = {}

    def add(self, value: Any, name: str) -> int:
        """Return the number of a value. ``name`` is the field that contains it; a secret name hides the value."""
        text = _encode(value)
        key = b"*" + text if is_secret_name(name) else text
        if (number := self._numbers.get(key)) is None:
            shown = self._view.value({name: value}) if name else self._view.value(value)
            number = self._append(next(iter(shown.values()), None) if name and isinstance(shown, dict) else shown, text)
            self._numbers[key] = number
        return number

    def _append(self, shown: JsonValue, text: bytes) -> int:
        size = len(_encode(shown))
        is_full = size > self._left
        self._left -= 0 if is_full else size
        self.cut += is_full or (len(text) > 2 * size and b"\xe2\x80\xa6 (" in _encode(shown))
        self.values.append(LEFT_OUT if is_full else shown)
        return len(self.values) - 1


def _encode(value: Any) -> bytes:
    return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS)


MAX_STEPS = 2_000
MAX_RUNS = 500
MAX_MESSAGES = 2_000
FORMAT = 1

_TURN_KEYS = ("number", "status", "error")


class SessionReader:
    """Reads one session. ``secrets`` are the keys of the settings; those of the canvas are learned from it."""

    def __init__(self, canvas: CompiledCanvas, store: Store, session: str, secrets: tuple[str, ...]) -> None:
        self._canvas = canvas
        self._store = store
        self._session = session
        self._steps = StoredSteps(canvas.with_saver(store.saver), store.saver, session)
        self._redactor = redactor = Redactor(secrets)
        redactor.learn_all(canvas.plan.redactor)
        self._view = RedactedView(redactor)
        self._values = SharedValues(self._view)
        self._hidden: set[str] = set()
        """The values of outputs with secret names, as the answers to forms show them."""

    def learn_from(self, document: str) -> None:
        """Learn the secrets of another canvas, which earlier runs of the session have used."""
        self._redactor.learn_from(orjson.loads(document))

    async def read(
        self, title: str, drawings: Mapping[str, str], messages: Sequence[tuple[str, str]] = ()
    ) -> dict[str, Any]:
        """Return the record as JSON. ``drawings`` are the canvas as SVG, for the themes ``light`` and ``dark``.

        ``messages`` are the roles and texts that the server has stored: the state does not have those of forms.

        Raises:
            CheckpointError: If the store fails, or has no such session.
        """
        runs = [run async for run in self._store.runs.of_session(self._session)][:MAX_RUNS]
        steps, left_out = await self._read_steps()
        history = await self._read_history(messages)
        name = next((run.name for run in runs if run.name), "") or self._session
        return {
            "format": FORMAT,
            "session": {"id": self._session, "name": self._text(name), "title": self._text(title)},
            "drawings": {theme: self._redactor.text(svg) for theme, svg in drawings.items()},
            "nodes": self._nodes(),
            "runs": [self._run(run) for run in reversed(runs)],
            "steps": steps,
            "steps_left_out": left_out,
            "history": history,
            "visits": [visit for run in reversed(runs) for visit in await self._visits(run)],
            "calls": [call for run in reversed(runs) for call in await self._calls(run)],
            "values": self._values.values,
            "values_cut": self._values.cut,
        }

    def _text(self, text: str) -> str:
        return self._view.text(text)

    def _nodes(self) -> dict[str, dict[str, str]]:
        nodes = self._canvas.plan.nodes
        return {
            id_: {"title": self._text(node.title or id_), "type": node.spec.name, "parent": node.parent or ""}
            for id_, node in nodes.items()
        }

    def _run(self, run: RunRecord) -> dict[str, Any]:
        return {
            "id": run.run_id,
            "parent": run.parent_run,
            "status": run.status,
            "error": self._text(run.reason),
            "model": self._text(run.model),
            "start_ms": run.started_ms,
            "end_ms": run.ended_ms,
        }

    async def _visits(self, run: RunRecord) -> list[dict[str, Any]]:
        """Return the executions of nodes, also of those that share a step."""
        blocks = await self._store.node_logs.get(run.run_id) or []
        return [
            {
                "run": run.run_id,
                "node": visit.get("node"),
                "at_ms": round(1000 * (visit.get("created_at") or 0)),
                "seconds": visit.get("seconds") or 0,
                "usage": list(visit.get("usage") or ()),
            }
            for block in blocks
            if block.get("kind") == "visits"
            for visit in cast("list[dict[str, Any]]", block.get("trace") or [])
        ]

    async def _calls(self, run: RunRecord) -> list[dict[str, Any]]:
        blocks = await self._store.traces.get(run.run_id) or []
        return [
            {
                "run": run.run_id,
                "node": block.get("component_id"),
                "path": self._text(str(entry.get("path", ""))),
                "tool": self._text(str(entry.get("title") or entry.get("tool_name", ""))),
                "seconds": entry.get("elapsed_time") or 0,
                "is_replayed": bool(entry.get("is_replayed")),
                "arguments": self._values.add(entry.get("arguments"), ""),
                "result": self._values.add(entry.get("result"), ""),
            }
            for block in blocks
            for entry in cast("list[dict[str, Any]]", block.get("trace") or [])
        ]

    async def _read_history(self, messages: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
        """Return the conversation as role, text and place, without its first messages if there are too many."""
        newest = await self._steps.tuple("")
        placed = _place(newest.checkpoint["channel_values"].get("history") or [], messages)
        return [
            {"at": at, "role": role, "text": self._values.add(self._hide(text) if role == "user" else text, "")}
            for at, role, text in placed[-MAX_MESSAGES:]
            if text != ""  # of a turn that forms began
        ]

    def _hide(self, text: Any) -> Any:
        """Hide secret values in the answer to a form: lines with a label and a value."""
        if not isinstance(text, str):
            return text
        lines = [(line, *line.partition(": ")) for line in text.split("\n")]
        return "\n".join(
            f"{label}: {REDACTED}" if value and (value in self._hidden or is_secret_name(label)) else line
            for line, label, _, value in lines
        )

    # Steps

    async def _read_steps(self) -> tuple[list[dict[str, Any]], int]:
        """Return the newest steps, oldest first, and how many older ones are left out."""
        places = [place async for place in self._steps.places()]
        steps: list[dict[str, Any]] = []
        turn = 0
        for namespace, checkpoint in sorted(islice(places, MAX_STEPS), key=lambda place: place[1]):
            if (snapshot := await self._steps.snapshot(namespace, checkpoint)) is None:
                continue
            if not namespace and snapshot.metadata.get("source") == "input":
                turn += 1
            if snapshot.metadata.get("source") == "input":
                continue  # no node runs next, only the entry into the graph
            info = self._steps.describe(snapshot, namespace, checkpoint)
            # In a thread, because the state may have megabytes to look for secrets in.
            steps.append(self._step(snapshot, info, turn))
        return steps, max(0, len(places) - MAX_STEPS)

    def _step(self, snapshot: Any, info: CheckpointInfo, turn: int) -> dict[str, Any]:
        values: Mapping[str, Any] = snapshot.values
        record: Mapping[str, Any] = values.get("turn") or {}
        history = values.get("history") or ()
        outputs: Mapping[str, Any] = values.get("outputs") or {}
        references: Mapping[str, Any] = record.get("references") or {}
        globals_: Mapping[str, Any] = values.get("globals") or {}
        for secret in find_stored_secrets(values):  # another version's, or those that a fork has changed
            self._redactor.learn(secret)
        for node, entry in outputs.items():
            if node != OPERATIONS and isinstance(entry, Mapping):
                fields = cast("Mapping[str, Any]", entry).items()
                self._hidden.update(to_text(value) for name, value in fields if is_secret_name(str(name)))
        return {
            "id": info.checkpoint,
            "namespace": info.namespace,
            "region": info.region,
            "round": info.round,
            "turn": turn,
            "at_ms": _milliseconds(info.created_at),
            "bytes": info.size_bytes,
            "next": list(info.next),
            "waiting": [pause.node for pause in open_pauses(snapshot)],
            "record": {key: self._values.add(record[key], key) for key in _TURN_KEYS if key in record},
            "references": self._entries(references.get("chunks") or {}),
            "usage": list(record.get("usage") or ()),
            "globals": self._entries({name: value for name, value in globals_.items() if name != "sys.history"}),
            "outputs": {
                node: self._entries(cast("Mapping[str, Any]", entry))
                for node, entry in outputs.items()
                if node != OPERATIONS and isinstance(entry, Mapping)
            },
            "history": len(history),
        }

    def _entries(self, entries: Mapping[str, Any]) -> dict[str, int]:
        return {str(name)[:200]: self._values.add(value, str(name)) for name, value in entries.items()}


def _place(entries: Sequence[Any], messages: Sequence[tuple[str, str]]) -> list[tuple[int, str, Any]]:
    """Return messages with their places in the history of a state, then what only the history has.

    The question of a form is not in the history, and has the place of the message before it.
    """
    placed: list[tuple[int, str, Any]] = []
    at = -1
    for role, text in messages:
        following = range(at + 1, len(entries)) if role == "user" else range(at + 1, min(at + 2, len(entries)))
        at = next((number for number in following if entries[number][0] == role), at)
        placed.append((max(at, 0), role, text))
    rest = range(at + 1, len(entries))
    return [*placed, *((number, entries[number][0], _message_text(entries[number][1])) for number in rest)]


def _message_text(payload: Any) -> Any:
    if isinstance(payload, Mapping):
        return cast("Mapping[str, Any]", payload).get("content", payload)
    return payload


def _milliseconds(time: str) -> int:
    return round(datetime.fromisoformat(time).timestamp() * 1000) if time else 0


_FOLDER = Path(page.__file__).parent
_LIBRARIES = {"vendor/highlight.js": re.compile("```|~~~"), "vendor/temml.js": re.compile(r"\$|\\\\[(\[]")}
"""The libraries for code and formulas, and how a record shows that it may need one."""
_END_OF_SCRIPT = re.compile("<(?=/script|!--|script)", re.IGNORECASE)


def build_run_file(record: Mapping[str, Any]) -> bytes:
    """Return the page. Its policy allows no script but its own, and no request.

    Args:
        record: What `SessionReader` has read, as JSON.
    """
    # The browser ends an inline script, and so the record, at the first `</script`.
    data = orjson.dumps(record).decode().replace("<", "\\u003c")
    script, style = _own_parts(tuple(name for name, sign in _LIBRARIES.items() if sign.search(data)))
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data: blob:; "
        "media-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    title = escape(str(record["session"]["title"]))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
        f'<title>{title}</title>\n<link rel="icon" href="data:,">\n<style>{style}</style>\n</head>\n<body>\n'
        '<div id="app"></div>\n<noscript>This page needs JavaScript.</noscript>\n'
        f'<script type="application/json" id="record">{data}</script>\n<script>{script}</script>\n</body>\n</html>\n'
    ).encode()


@lru_cache(maxsize=4)
def _own_parts(lazy: tuple[str, ...]) -> tuple[str, str]:
    """Return the page's script and its style, the same for every file with the same libraries."""
    script = join_scripts(_FOLDER / "js" / "run_file.js", lazy)
    style = "".join(
        (_FOLDER / name).read_text("utf-8")
        for name in ("tokens.css", "page.css", "chat.css", "answers.css", "graph.css", "run.css")
    )
    return _END_OF_SCRIPT.sub(r"\\x3c", script), style


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
