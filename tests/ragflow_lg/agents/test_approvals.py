"""Calls that the user must approve: asked about in a form, made once and as shown, or refused with a reason."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ragflow_lg.agents.toolbox import MAX_APPROVED_CHARS
from ragflow_lg.base.errors import ConflictError
from ragflow_lg.base.ids import thread_of_session
from ragflow_lg.checkpoints import open_store
from ragflow_lg.component.function_tool import function_tool
from ragflow_lg.engine.interrupted_calls import APPROVE, CONTINUE, REFUSE
from ragflow_lg.runs.runner import Run, Runner
from ragflow_lg.services.tool_policies import Allow, Refuse, Replace, ServerAnswer, ToolPermits, ToolPolicies
from tests.fakes.agents import play_agent, tool_calls
from tests.fakes.canvas import canvas, node
from tests.fakes.mcp_servers import FakeServer
from tests.fakes.policies import Canvases, Guard, catalog_with, entry
from tests.fakes.regions import iteration, loop, out, play_run, runner_of, text
from tests.fakes.services import OneModel, Reply, ScriptedModel, fake_services
from tests.harness.rows import each_row

ASKS = ToolPolicies(ToolPermits(ask=("send",)))
ADA, EVE = ("Send_0", {"to": "ada"}), ("Send_0", {"to": "eve"})


class ProcessDeath(BaseException):
    """Ends a run as a kill would."""


class Mailbox:
    """Tools that send and post, and one that reads; they note their calls."""

    def __init__(self) -> None:
        self.actions: list[str] = []

        @function_tool(runs_once=True)
        def send(to: str) -> str:
            self.actions.append(f"send {to}")
            if to == "death":
                raise ProcessDeath
            return f"sent to {to}"

        def look(at: str) -> str:
            self.actions.append(f"look {at}")
            return f"seen {at}"

        @function_tool(runs_once=True)
        def post(to: str) -> str:
            self.actions.append(f"post {to}")
            return f"posted to {to}"

        self.catalog = catalog_with(Send=send, Look=look, Post=post)


class Approvals:
    """Plays agents in one store, and answers their forms."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.mailbox = Mailbox()
        self.model = ScriptedModel()

    async def play(self, *replies: Reply, tools: Any = None, policies: ToolPolicies = ASKS, **more: Any) -> Any:
        params = {"tools": tools or [entry("Send"), entry("Look")], **more.pop("params", {})}
        catalog = more.pop("catalog", self.mailbox.catalog)
        more = {"store": self.store, "catalog": catalog, "model": self.model, "is_shown": False, **more}
        return await play_agent(list(replies), params, policies=policies, **more)


@pytest.fixture
async def approvals() -> AsyncGenerator[Approvals]:
    async with open_store("memory://") as store:
        yield Approvals(store)


async def answer(
    runner: Runner, decide: Callable[[str], tuple[str, str]], *, pause: int | None = None, session: str = "s"
) -> Run:
    """Answer the open forms, or one of them, by the label of each call: with the decision and the reason."""
    pauses = await runner.pauses(session)
    fields: dict[str, Any] = {}
    for each in pauses if pause is None else pauses[pause : pause + 1]:
        for name, field in each.inputs.items():
            decision, reason = decide(str(field["name"]).removesuffix(": why not?"))
            fields[name] = decision if name.startswith("decision") else reason
    run = runner.resume(session, fields)
    await play_run(run)
    return run


def always(decision: str, reason: str = "") -> Callable[[str], tuple[str, str]]:
    return lambda _: (decision, reason)


def results(model: ScriptedModel) -> list[str]:
    return [m["content"] for m in model.requests[-1][1].messages if m["role"] == "tool"]


async def test_an_approved_call_is_made_once_and_the_model_is_not_asked_again(approvals: Approvals) -> None:
    turn = await approvals.play(tool_calls(ADA), Reply("Done."))
    assert (turn.run.status, approvals.mailbox.actions, len(turn.model.requests)) == ("waiting", [], 1)
    (pause,) = await turn.runner.pauses("s")
    assert pause.node == "a"
    assert '"to": "ada"' in pause.tips
    assert [field["name"] for field in pause.inputs.values()] == ["Send", "Send: why not?"]
    run = await answer(turn.runner, always(APPROVE))
    assert (run.status, approvals.mailbox.actions, len(turn.model.requests)) == ("succeeded", ["send ada"], 2)
    assert results(turn.model) == ["sent to ada"]


async def test_the_model_learns_why_a_call_was_refused(approvals: Approvals) -> None:
    turn = await approvals.play(tool_calls(ADA), Reply("Sorry."))
    run = await answer(turn.runner, always(REFUSE, "Ask Bob first."))
    assert (run.status, approvals.mailbox.actions) == ("succeeded", [])
    assert results(turn.model) == ["The call to Send was not made: the user refused it. Ask Bob first."]


async def test_the_calls_of_a_round_share_one_form_and_others_are_made_meanwhile(approvals: Approvals) -> None:
    turn = await approvals.play(tool_calls(ADA, ("Look_1", {"at": "bob"}), EVE), Reply("Done."))
    assert approvals.mailbox.actions == ["look bob"]
    (pause,) = await turn.runner.pauses("s")
    assert len(pause.inputs) == 4
    run = await answer(turn.runner, lambda label: (APPROVE if label.startswith("2") else REFUSE, ""))
    assert (run.status, approvals.mailbox.actions) == ("succeeded", ["look bob", "send eve"])
    assert results(turn.model) == ["The call to Send was not made: the user refused it.", "seen bob", "sent to eve"]


async def test_each_round_asks_again_even_for_the_same_call(approvals: Approvals) -> None:
    turn = await approvals.play(tool_calls(ADA), tool_calls(ADA), Reply("Done."))
    run = await answer(turn.runner, always(APPROVE))
    assert (run.status, approvals.mailbox.actions) == ("waiting", ["send ada"])
    run = await answer(turn.runner, always(REFUSE))
    assert (run.status, approvals.mailbox.actions) == ("succeeded", ["send ada"])
    assert len(turn.model.requests) == 3


async def test_only_a_valid_answer_goes_on(approvals: Approvals) -> None:
    turn = await approvals.play(tool_calls(ADA), Reply("Done."))
    with pytest.raises(Exception, match="is required"):
        await answer(turn.runner, always(""))
    with pytest.raises(Exception, match="should be"):
        await answer(turn.runner, always("yes please"))
    assert approvals.mailbox.actions == []


async def test_a_message_answers_a_form_with_one_call_and_is_no_question(approvals: Approvals) -> None:
    turn = await approvals.play(tool_calls(ADA), tool_calls(EVE), Reply("Done."))
    for status, gives_inputs in (("waiting", False), ("succeeded", True)):
        (pause,) = await turn.runner.pauses("s")
        inputs = {name: {"value": APPROVE} for name in pause.inputs if name.startswith("decision")}
        run = turn.runner.start("s", {"query": APPROVE, "inputs": inputs if gives_inputs else {}})
        await play_run(run)
        assert run.status == status
    assert (approvals.mailbox.actions, len(turn.model.requests)) == (["send ada", "send eve"], 3)
    messages = turn.model.requests[-1][1].messages
    assert [message["role"] for message in messages] == ["user", *2 * ["assistant", "tool"]]
    assert messages[0] == turn.model.requests[0][1].messages[0]
    assert (await turn.runner.state("s"))["globals"]["sys.query"] != APPROVE


RULES: Mapping[str, ToolPermits] = {
    "name": ToolPermits(ask=("SEND",)),
    "pattern": ToolPermits(ask=("s*",)),
    "effects": ToolPermits(ask=("effects:writes",)),
}


@each_row("permits", list(RULES.values()))
async def test_rules_name_tools_patterns_and_effects(permits: ToolPermits) -> None:
    async with open_store("memory://") as store:
        approvals = Approvals(store)
        await approvals.play(tool_calls(ADA, ("Look_1", {"at": "bob"})), Reply("x"), policies=ToolPolicies(permits))
    assert approvals.mailbox.actions == ["look bob"]


async def test_a_canvas_can_ask_for_more_but_not_for_less(approvals: Approvals) -> None:
    calls = tool_calls(ADA, ("Look_1", {"at": "bob"}))
    turn = await approvals.play(calls, Reply("x"), params={"ask_tools": ["Look"]})
    (pause,) = await turn.runner.pauses("s")
    assert (len(pause.inputs), approvals.mailbox.actions) == (4, [])


async def test_once_only_false_in_a_canvas_does_not_weaken_a_rule_about_effects(approvals: Approvals) -> None:
    tools = [entry("Email", server="office", to_email="ada@example.com", once_only=False)]
    policies = ToolPolicies(ToolPermits(ask=("effects:writes",)))
    turn = await approvals.play(tool_calls(("email_0", {"subject": "Hi"})), Reply("x"), tools=tools, policies=policies)
    assert turn.run.status == "waiting"


async def test_tools_of_servers_count_as_tools_that_write(approvals: Approvals) -> None:
    mcp: Any = [{"mcp_id": "files", "tools": {"delete": {"inputSchema": {"type": "object", "properties": {}}}}}]
    turn = await approvals.play(
        tool_calls(("delete_0", {})),
        Reply("x"),
        params={"tools": [], "mcp": mcp},
        policies=ToolPolicies(ToolPermits(ask=("effects:writes",))),
        servers={"files": FakeServer(ServerAnswer(("gone",)))},
    )
    assert turn.run.status == "waiting"
    run = await answer(turn.runner, always(APPROVE))
    assert (run.status, results(turn.model)) == ("succeeded", ["gone"])


async def test_a_form_names_the_tool_and_a_title_forges_nothing(approvals: Approvals) -> None:
    title = 'Notes"\n\n```json\n{}\n```\n\n' + "x" * 200
    tool = {**entry("Send"), "name": title}
    mcp: Any = [{"mcp_id": "prod", "tools": {"delete": {"inputSchema": {"type": "object", "properties": {}}}}}]
    turn = await approvals.play(
        tool_calls(ADA, ("delete_1", {})),
        Reply("x"),
        tools=[tool],
        params={"mcp": mcp},
        policies=ToolPolicies(ToolPermits(ask=("*",))),
        servers={"prod": FakeServer(ServerAnswer(("gone",)))},
    )
    (pause,) = await turn.runner.pauses("s")
    labels = [field["name"] for field in pause.inputs.values()][::2]
    shown = r"Notes\"\n\n\u0060\u0060\u0060json\n{}\n\u0060\u0060\u0060\n\n"
    assert labels == [f'1. Send "{shown}{"x" * 76}"', "2. mcp:prod/delete"]
    assert [line for line in pause.tips.split("\n") if line.startswith("`") and "```" not in line] == [
        f"`{label}`" for label in labels
    ]


async def test_guards_come_first_and_what_they_leave_is_shown_and_called(approvals: Approvals) -> None:
    guard = Guard(Replace({"to": "bob"}))
    policies = ToolPolicies(ASKS.permits, (guard,))
    turn = await approvals.play(tool_calls(ADA), Reply("x"), policies=policies)
    (pause,) = await turn.runner.pauses("s")
    assert '"to": "bob"' in pause.tips
    guard.before_verdict = Replace({"to": "mallory"})
    await answer(turn.runner, always(APPROVE))
    assert approvals.mailbox.actions == ["send bob"]


async def test_nobody_is_asked_about_a_call_that_a_guard_refuses(approvals: Approvals) -> None:
    policies = ToolPolicies(ASKS.permits, (Guard(Refuse("No.")), Guard(Allow())))
    turn = await approvals.play(tool_calls(ADA), Reply("x"), policies=policies)
    assert (turn.run.status, turn.tool_results) == ("succeeded", ["The call to Send was refused: No."])


async def test_without_a_store_nobody_can_be_asked() -> None:
    mailbox = Mailbox()
    turn = await play_agent(
        [tool_calls(ADA), Reply("x")], {"tools": [entry("Send")]}, policies=ASKS, catalog=mailbox.catalog
    )
    assert turn.tool_results == [
        "The call to Send was not made: it needs a user's approval, and nobody can be asked here."
    ]
    assert mailbox.actions == []


async def test_arguments_are_shown_as_they_are_or_not_at_all(approvals: Approvals) -> None:
    hidden = {"to": "ada```\u202e\u200b\n# approve"}
    turn = await approvals.play(
        tool_calls(("Send_0", hidden), ("Send_0", {"to": "x" * MAX_APPROVED_CHARS})), Reply("x")
    )
    (pause,) = await turn.runner.pauses("s")
    assert r'"to": "ada\u0060\u0060\u0060\u202e\u200b\n# approve"' in pause.tips
    assert len(pause.inputs) == 2
    await answer(turn.runner, always(APPROVE))
    assert results(turn.model)[1] == (
        "The call to Send was not made: its arguments are too long for a user to approve them."
    )


HELPER = {"component_name": "Agent", "name": "Helper", "params": {"llm_id": "m@Test", "tools": [entry("Send")]}}


async def test_agents_that_are_tools_ask_in_one_form_through_the_node(approvals: Approvals) -> None:
    helpers = ("Helper_0", {"user_prompt": "write to ada"}), ("Helper_0", {"user_prompt": "write to eve"})
    turn = await approvals.play(
        tool_calls(*helpers),
        Reply("", calls=[{"name": "Send_0", "arguments": {"to": "ada"}}], match="write to ada"),
        Reply("", calls=[{"name": "Send_0", "arguments": {"to": "eve"}}], match="write to eve"),
        Reply("told"),
        Reply("told"),
        Reply("ok"),
        tools=[HELPER],
    )
    (pause,) = await turn.runner.pauses("s")
    assert (len(pause.inputs), approvals.mailbox.actions, len(turn.model.requests)) == (4, [], 3)
    run = await answer(turn.runner, always(APPROVE))
    assert (run.status, sorted(approvals.mailbox.actions)) == ("succeeded", ["send ada", "send eve"])
    assert len(turn.model.requests) == 6


async def test_an_agent_that_was_approved_asks_about_its_own_calls(approvals: Approvals) -> None:
    turn = await approvals.play(
        tool_calls(("Helper_0", {"user_prompt": "write to ada"})),
        Reply("", calls=[{"name": "Send_0", "arguments": {"to": "ada"}}], match="write to ada"),
        Reply("told"),
        Reply("ok"),
        tools=[HELPER],
        policies=ToolPolicies(ToolPermits(ask=("*",))),
    )
    for labels in (['Agent "Helper"', 'Agent "Helper": why not?'], ["Send", "Send: why not?"]):
        (pause,) = await turn.runner.pauses("s")
        assert [field["name"] for field in pause.inputs.values()] == labels
        run = await answer(turn.runner, always(APPROVE))
    assert (run.status, approvals.mailbox.actions, len(turn.model.requests)) == ("succeeded", ["send ada"], 4)


def agent(prompt: str, downstream: Any = (), *tools: Any) -> dict[str, Any]:
    params = {"llm_id": "m@Test", "prompts": prompt, "tools": [entry("Send"), *tools], "cite": False}
    return node("Agent", params, downstream)


def sends(match: str, to: str) -> Reply:
    return Reply("", calls=[{"name": "Send_0", "arguments": {"to": to}}], match=match)


async def test_the_branches_of_a_canvas_that_is_a_tool_ask_in_one_form(approvals: Approvals) -> None:
    inner = canvas(
        {
            "left": agent("left", ["join"]),
            "right": agent("right", ["join"]),
            "join": node("Message", {"content": ["{left@content}{right@content}"]}),
        },
        ["left", "right"],
    )
    turn = await approvals.play(
        tool_calls(("Canvas_0", {"query": "q"})),
        sends("left", "ada"),
        sends("right", "eve"),
        Reply("told"),
        Reply("told"),
        Reply("ok"),
        tools=[entry("Canvas", canvas="c", description="d")],
        deployment=Canvases({"c": inner}),
    )
    (pause,) = await turn.runner.pauses("s")
    assert (len(pause.inputs), len(turn.model.requests)) == (4, 3)
    run = await answer(turn.runner, always(APPROVE))
    assert (run.status, sorted(approvals.mailbox.actions)) == ("succeeded", ["send ada", "send eve"])
    assert len(turn.model.requests) == 6
    assert results(turn.model) == ["toldtold"]


def runner_in(approvals: Approvals, components: dict[str, Any], *replies: Reply, first: Any = None) -> Runner:
    approvals.model.replies = list(replies)
    services = fake_services(models=OneModel(approvals.model), policies=ASKS)
    return runner_of(
        components, services=services, store=approvals.store, catalog=approvals.mailbox.catalog, first=first
    )


async def test_parallel_agents_have_forms_of_their_own(approvals: Approvals) -> None:
    components = {
        "left": agent("left", ["out"]),
        "right": agent("right", ["out"]),
        "out": node("Message", {"content": ["{left@content}{right@content}"]}),
    }
    replies = (sends("left", "ada"), sends("right", "eve"), Reply("told"), Reply("told"))
    runner = runner_in(approvals, components, *replies, first=["left", "right"])
    await play_run(runner.start("s", {"query": "q"}))
    assert sorted(pause.node for pause in await runner.pauses("s")) == ["left", "right"]
    run = await answer(runner, always(APPROVE), pause=0)
    assert (run.status, len(approvals.mailbox.actions)) == ("waiting", 1)
    run = await answer(runner, always(REFUSE))
    assert (run.status, len(approvals.mailbox.actions)) == ("succeeded", 1)


async def test_every_round_of_a_loop_asks(approvals: Approvals) -> None:
    body = loop({"a": agent("go", [])}, count=2) | {"out": node("Message", {"content": ["done"]})}
    replies = (sends("go", "ada"), Reply("told"), sends("go", "eve"), Reply("told"))
    runner = runner_in(approvals, body, *replies, first=["lp"])
    await play_run(runner.start("s", {"query": "q"}))
    run = await answer(runner, always(APPROVE))
    assert (run.status, approvals.mailbox.actions) == ("waiting", ["send ada"])
    run = await answer(runner, always(APPROVE))
    assert (run.status, approvals.mailbox.actions) == ("succeeded", ["send ada", "send eve"])


async def test_parallel_rounds_have_forms_of_their_own(approvals: Approvals) -> None:
    body = iteration({"a": agent("{ii@item}")}, {"told": "a@content"}, max_concurrency=2)
    components = {**body, "out": node("Message", {"content": ["{it@told}"]})}
    replies = (sends("ada", "ada"), sends("eve", "eve"), Reply("told"), Reply("told"))
    runner = runner_in(approvals, components, *replies)
    run = runner.start("s", {"query": "q", "inputs": {"items": {"value": ["ada", "eve"]}}})
    await play_run(run)
    assert run.status == "waiting", run.error
    assert len(await runner.pauses("s")) == 2
    run = await answer(runner, always(APPROVE), pause=0)
    assert (run.status, len(approvals.mailbox.actions)) == ("waiting", 1)
    run = await answer(runner, always(APPROVE))
    assert (run.status, sorted(approvals.mailbox.actions)) == ("succeeded", ["send ada", "send eve"])


async def test_a_fork_goes_on_in_the_middle_of_a_round(approvals: Approvals) -> None:
    tools = [entry("Send"), entry("Post")]
    turn = await approvals.play(tool_calls(ADA, ("Post_1", {"to": "bob"})), Reply("told"), Reply("told"), tools=tools)
    await turn.runner.fork("s", "twin")
    for session in ("twin", "s"):
        run = await answer(turn.runner, always(APPROVE), session=session)
        assert run.status == "succeeded"
    assert approvals.mailbox.actions == ["post bob", "send ada", "send ada"]
    assert len(turn.model.requests) == 3


async def test_a_rerun_beside_an_agent_that_waits_for_approval_is_refused(approvals: Approvals) -> None:
    components = {"left": agent("left", ["out"]), "right": text(["out"], "R"), **out("{left@content}{right@result}")}
    runner = runner_in(approvals, components, sends("left", "ada"), sends("left", "ada"), first=["left", "right"])
    await play_run(runner.start("s", {"query": "q"}))
    with pytest.raises(ConflictError, match="A node beside it asks about its calls"):
        await runner.rerun("s", "again", "right")
    run = await runner.rerun("s", "again", "left")
    await play_run(run)
    assert (run.status, len(approvals.model.requests)) == ("waiting", 2)


async def test_an_answer_counts_even_if_the_store_has_lost_the_round(approvals: Approvals) -> None:
    turn = await approvals.play(tool_calls(ADA), tool_calls(ADA), Reply("told"))
    await approvals.store.saver.acopy_thread(thread_of_session("s"), thread_of_session("twin"))  # without such results
    run = await answer(turn.runner, always(APPROVE), session="twin")
    assert (run.status, approvals.mailbox.actions) == ("succeeded", ["send ada"])


@asynccontextmanager
async def reopened(url: str, actions: list[str]) -> AsyncGenerator[Approvals]:
    async with open_store(url) as store:
        approvals = Approvals(store)
        approvals.mailbox.actions = actions
        yield approvals


async def test_an_open_form_survives_a_restart(tmp_path: Any) -> None:
    url, actions = f"sqlite:///{tmp_path}/s.db", list[str]()
    components = {"a": agent("go", ["out"], entry("Look")), "out": node("Message", {"content": ["{a@content}"]})}
    async with reopened(url, actions) as first:
        await play_run(runner_in(first, components, tool_calls(ADA, ("Look_1", {"at": "bob"}))).start("s", {}))
    async with reopened(url, actions) as second:
        runner = runner_in(second, components, Reply("Done."))
        run = await answer(runner, always(APPROVE))
        assert (run.status, actions) == ("succeeded", ["look bob", "send ada"])
        assert len(second.model.requests) == 1


async def test_an_approved_call_is_not_made_again_after_a_crash_unless_the_user_says_so(tmp_path: Any) -> None:
    url, actions = f"sqlite:///{tmp_path}/s.db", list[str]()
    components = {"a": agent("go", ["out"]), "out": node("Message", {"content": ["{a@content}"]})}
    async with reopened(url, actions) as first:
        runner = runner_in(first, components, sends("go", "death"))
        await play_run(runner.start("s", {}))
        with pytest.raises(ProcessDeath):
            await answer(runner, always(APPROVE))
    async with reopened(url, actions) as second:
        runner = runner_in(second, components, Reply("Who knows."))
        run = runner.continue_("s")
        await play_run(run)
        assert (run.status, second.model.requests) == ("waiting", [])
        (pause,) = await runner.pauses("s")
        assert "was interrupted while running" in pause.tips
        run = runner.resume("s", {"decision": CONTINUE})
        await play_run(run)
        assert (run.status, actions, len(second.model.requests)) == ("succeeded", ["send death"], 1)
        assert "unknown whether it took effect" in results(second.model)[0]
