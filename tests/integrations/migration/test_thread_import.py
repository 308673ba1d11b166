"""Threads made from sessions: what waits, what has run, and what the next turn does."""

from typing import Any

from ragflow_lg.adapters.ragflow_api.remote_sessions import RemoteMessage, RemoteSession, RemoteState
from ragflow_lg.checkpoints import open_store
from ragflow_lg.integrations.migration.thread_import import check_transcript, import_session
from ragflow_lg.runs.runner import Runner
from ragflow_lg.server.assembly.library import load_canvas
from tests.fakes.canvas import canvas
from tests.fakes.regions import form, loop, out, text
from tests.fakes.services import fake_services
from tests.harness.rows import each_row

SESSION = "5" * 32


def session(path: list[str], outputs: dict[str, Any] | None = None, **fields: Any) -> RemoteSession:
    messages = [RemoteMessage("assistant", "Hi"), RemoteMessage("user", "one"), RemoteMessage("assistant", "1")]
    state = RemoteState([["user", "one"], ["assistant", {"content": "1"}]], {"env.x": "y"}, path, outputs or {})
    return RemoteSession(SESSION, "a1", messages, state, **fields)


def switch(cases: dict[str, str], other: str) -> dict[str, Any]:
    conditions = [
        {"logical_operator": "and", "items": [{"cpn_id": "sys.query", "operator": "=", "value": value}], "to": [target]}
        for value, target in cases.items()
    ]
    params = {"conditions": conditions, "end_cpn_ids": [other]}
    return {"obj": {"component_name": "Switch", "params": params}, "downstream": [*cases.values(), other]}


JOINED: dict[str, Any] = {
    **{"begin": {"obj": {"component_name": "Begin", "params": {}}, "downstream": ["s"]}},
    "s": switch({"ask": "ask"}, "other"),
    "ask": form("w", tips="word?", downstream=["m"]),
    "other": text(["m"], "other"),
    "m": {"obj": {"component_name": "Message", "params": {"content": ["word {ask@w}"]}}, "downstream": []},
}


async def play(document: dict[str, Any], remote: RemoteSession, answer: dict[str, Any] | None) -> tuple[bool, str, str]:
    """Import a session and go on. Return whether it waited, the problem and the answer."""
    compiled, services = load_canvas(document), fake_services()
    async with open_store("memory://") as store:
        result = await import_session(remote, compiled, store, services, "canvas.json")
        assert await check_transcript(remote, compiled, store) == ""
        runner = Runner(compiled, services, store=store)
        run = runner.resume(SESSION, answer) if answer else runner.start(SESSION, {"query": "two"})
        async for _ in run:
            pass
        state = await runner.state(SESSION)
        assert state["globals"]["env.x"] == "y"
        assert [entry[0] for entry in state["history"]][:2] == ["user", "assistant"]
        again = await import_session(remote, compiled, store, services, "canvas.json")
        assert not again.is_new
        return result.is_waiting, result.problem, run.answer


@each_row("outputs", [{"s": {"_next": ["ask"]}}, {}])
async def test_a_form_behind_a_choice_waits_and_its_join_runs(outputs: dict[str, Any]) -> None:
    played = await play({"components": JOINED}, session(["ask"], outputs), {"w": "yes"})
    assert played == (True, "", "word yes")


async def test_a_finished_session_takes_the_next_question() -> None:
    document: dict[str, Any] = {"components": {**JOINED, "s": switch({"ask": "ask"}, "other")}}
    document["components"]["m"] = {**JOINED["m"], "obj": {"component_name": "Message", "params": {"content": ["done"]}}}
    assert await play(document, session(["begin", "s", "other", "m"]), None) == (False, "", "done")


@each_row(
    ("path", "problem"),
    [
        (["UserFillUp:Gone"], "not in the canvas any more"),
        (["UserFillUp:Ask", "m"], "other components wait beside"),
        (["UserFillUp:Text"], "is no form"),
    ],
)
async def test_a_form_that_cannot_wait_is_reported(path: list[str], problem: str) -> None:
    components: dict[str, Any] = {
        "begin": {"obj": {"component_name": "Begin", "params": {}}, "downstream": ["m"]},
        "m": {"obj": {"component_name": "Message", "params": {"content": ["done"]}}, "downstream": ["UserFillUp:Text"]},
        "UserFillUp:Text": {"obj": {"component_name": "Message", "params": {"content": ["x"]}}, "downstream": []},
        "UserFillUp:Ask": form("w", tips="word?", downstream=[]),
    }
    is_waiting, found, _ = await play({"components": components}, session(path), None)
    assert not is_waiting
    assert problem in found


@each_row(("role", "problem"), [("user", "1.0 does not store that a form waits"), ("assistant", "")])
async def test_a_session_of_1_0_does_not_say_whether_it_waits(role: str, problem: str) -> None:
    remote = session([])
    remote.messages.append(RemoteMessage(role, "two"))
    is_waiting, found, _ = await play({"components": JOINED}, remote, None)
    assert not is_waiting
    assert bool(found) == bool(problem)
    assert problem in found


async def test_a_form_in_a_loop_is_reported() -> None:
    body = {"UserFillUp:Ask": form("w", tips="word?", downstream=["t"]), "t": text([], "x")}
    document = canvas({**loop(body, count=1, variables={"seen": ""}), **out("done")})
    compiled, services = load_canvas(document), fake_services()
    async with open_store("memory://") as store:
        result = await import_session(session(["UserFillUp:Ask"]), compiled, store, services, "canvas.json")
    assert "inside a Loop" in result.problem


async def test_an_import_that_was_killed_is_repeated() -> None:
    compiled, services = load_canvas({"components": JOINED}), fake_services()
    async with open_store("memory://") as store:
        remote = session(["ask"])
        await import_session(remote, compiled, store, services, "canvas.json")
        async for record in store.runs.of_session(SESSION):
            await store.runs.delete(SESSION, [record.run_id])
        again = await import_session(remote, compiled, store, services, "canvas.json")
        assert again.is_waiting
        assert len(await Runner(compiled, services, store=store).pauses(SESSION)) == 1
