import json
from typing import Any

import pytest

from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints import open_store
from ragflow_lg.dsl.redacted_view import RedactedView
from ragflow_lg.dsl.redaction import Redactor
from ragflow_lg.runs.runner import Runner
from ragflow_lg.server.assembly.library import load_canvas
from ragflow_lg.server.page.run_file import SessionReader, session_record
from ragflow_lg.server.page.run_file.session_record import LEFT_OUT, SharedValues
from tests.fakes.services import fake_services
from tests.server.http.app_server import ECHO, FORM

KEY = "sk-abcdefghijklmnopqrstuvwxyz123456"
LONG = "x" * 50_000


async def record(dsl: dict[str, Any], *queries: str, secrets: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the record of a session in which a canvas has answered some questions."""
    compiled = load_canvas(json.dumps(dsl).encode())
    async with open_store("memory://", SystemClock()) as store:
        runner = Runner(compiled, fake_services(clock=SystemClock()), store=store)
        for query in queries:
            async for _ in runner.start("anna", {"query": query}):
                pass
        return await SessionReader(compiled, store, "anna", secrets).read("Helper", {"light": f"<svg>{KEY}</svg>"})


def value(shown: dict[str, Any], step: int, *path: str) -> Any:
    number: Any = shown["steps"][step]
    for name in path:
        number = number[name]
    return shown["values"][number]


async def test_every_step_has_its_state_and_the_nodes_that_run_next() -> None:
    shown = await record(ECHO, "one", "two")
    assert [(step["turn"], step["next"]) for step in shown["steps"]] == [
        (turn, nodes) for turn in (1, 2) for nodes in (["begin"], ["Message:0"], [], [])
    ]
    assert value(shown, 3, "outputs", "Message:0", "content") == "You said one"
    assert value(shown, 7, "outputs", "Message:0", "content") == "You said two"
    assert value(shown, 5, "globals", "sys.query") == "two"
    assert [(m["role"], shown["values"][m["text"]]) for m in shown["history"]] == [
        ("user", "one"),
        ("assistant", "You said one"),
        ("user", "two"),
        ("assistant", "You said two"),
    ]
    assert [step["history"] for step in shown["steps"]] == [0, 1, 1, 2, 2, 3, 3, 4]
    assert [run["status"] for run in shown["runs"]] == ["succeeded", "succeeded"]
    assert shown["nodes"]["Message:0"] == {"title": "Message:0", "type": "Message", "parent": ""}


async def test_a_form_that_waits_is_named() -> None:
    shown = await record(FORM, "one")
    assert shown["steps"][-1]["waiting"] == ["UserFillUp:0"]
    assert shown["runs"][-1]["status"] == "waiting"


async def test_secrets_are_taken_out_everywhere() -> None:
    names = {"api_key": "hunter-2-hunter", "place": "Bremen"}
    dsl = {**ECHO, "variables": {name: {"name": name, "value": text, "type": "string"} for name, text in names.items()}}
    shown = await record(dsl, f"{KEY} and hunter-2-hunter and plain-word-secret", secrets=("plain-word-secret",))
    text = json.dumps(shown)
    assert not [secret for secret in (KEY, "hunter-2-hunter", "plain-word-secret") if secret in text]
    assert value(shown, 3, "globals", "env.api_key") == "***"
    assert value(shown, 3, "globals", "env.place") == "Bremen"
    assert shown["drawings"] == {"light": "<svg>***</svg>"}


async def test_long_values_are_cut_and_counted() -> None:
    shown = await record(ECHO, LONG)
    assert value(shown, 3, "globals", "sys.query").endswith("… (50,000 characters)")
    assert shown["values_cut"] >= 2
    assert len(json.dumps(shown)) < 100_000


async def test_old_steps_are_left_out_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_record, "MAX_STEPS", 4)
    shown = await record(ECHO, "one", "two")
    assert shown["steps_left_out"] > 0
    assert value(shown, -1, "outputs", "Message:0", "content") == "You said two"


async def test_a_session_without_steps_is_an_error() -> None:
    with pytest.raises(CheckpointError):
        await record(ECHO)


def test_values_are_stored_once_up_to_a_size() -> None:
    values = SharedValues(RedactedView(Redactor()), max_bytes=32)
    assert [values.add(value, "a") for value in ("x" * 20, [1], "x" * 20, [1])] == [0, 1, 0, 1]
    assert values.add("y" * 30, "a") == 2
    assert values.values[2] == LEFT_OUT
    assert values.cut == 1
    assert values.values[values.add("z", "password")] == "***"
