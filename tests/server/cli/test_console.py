from pathlib import Path

import pytest

from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.runs.pauses import Pause
from ragflow_lg.runs.runner import Run, Runner
from ragflow_lg.server.assembly.library import load_canvas
from ragflow_lg.server.cli.console import metrics_line, show, show_forms
from ragflow_lg.services.agent_metrics import AgentMetrics, ToolMetrics
from ragflow_lg.services.chat import Usage
from tests.fakes.agents import WIKI, play_agent, tool_calls
from tests.fakes.canvas import CATALOG, canvas, node
from tests.fakes.services import OneModel, Reply, ScriptedModel, fake_services
from tests.server.cli.command import save


def start_turn(tmp_path: Path, reply: Reply) -> tuple[Runner, Run]:
    say = node("Message", {"content": ["{LLM:Ask@content}"]})
    path = save(tmp_path / "ask.json", {"LLM:Ask": node("LLM", {"llm_id": ""}, ["say"]), "say": say})
    runner = Runner(load_canvas(path), fake_services(models=OneModel(ScriptedModel([reply]))))
    return runner, runner.start("s", {"query": "Well?"})


async def test_thoughts_are_not_part_of_the_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, turn = start_turn(tmp_path, Reply("<think>Hm.</think>Yes [red]indeed[/]."))
    await show(load_canvas(tmp_path / "ask.json").plan, turn)
    written = capsys.readouterr()
    assert written.out == "Yes [red]indeed[/].\n"
    assert turn.answer == "Yes [red]indeed[/]."
    assert [line[0] for line in written.err.splitlines()] == ["▸", "✓", "▸", "▸", "H", "✓", "✓"]
    assert "\nHm.\n" in written.err


async def test_words_between_colons_are_not_emoji(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, turn = start_turn(tmp_path, Reply("Say :smile: now"))
    await show(load_canvas(tmp_path / "ask.json").plan, turn)
    assert capsys.readouterr().out == "Say :smile: now\n"
    field = {"name": "Label :cat:", "type": "line"}
    show_forms([Pause("1", "Form:A", "Tips :smile:", {"f": field})])
    assert capsys.readouterr().err == "? Tips :smile: (Form:A)\n  f: Label :cat:, line\n"
    _, turn = start_turn(tmp_path, Reply(error="No :smile:."))
    await show(load_canvas(tmp_path / "ask.json").plan, turn)
    assert capsys.readouterr().err.count("No :smile:.") == 1


async def test_a_stopped_turn_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, turn = start_turn(tmp_path, Reply("Yes"))
    turn.cancel()
    await show(load_canvas(tmp_path / "ask.json").plan, turn)
    assert capsys.readouterr().err.splitlines()[-1] == "stopped"


async def test_calls_of_tools_are_progress(capsys: pytest.CaptureFixture[str]) -> None:
    find = {"component_name": "Agent", "name": "Fact [b]Finder", "params": {"llm_id": "m", "tools": [WIKI]}}
    replies = [
        tool_calls(("Fact__b_Finder_0", {"user_prompt": "[red]Find"}), ("none_9", {})),
        tool_calls(("wikipedia_search_0", {"query": "Laos"}), text="Hm."),
        Reply("Vientiane."),
        Reply("So."),
    ]
    plan = compile_canvas(canvas({"m": node("Message", {"content": "x"})}), CATALOG).plan
    first = await play_agent([Reply("Well.")], {"tools": [find]}, is_shown=False)
    for has_trace in (False, True):
        first.model.replies += replies
        turn = first.runner.start(f"s{has_trace}", {"query": "q"})
        await show(plan, turn, has_trace=has_trace)
        lines = [line.strip() for line in capsys.readouterr().err.splitlines()]
        assert '→ Fact [b]Finder(user_prompt="[red]Find")' in lines
        assert '→ Wiki(query="Laos")' in lines
        assert "✓ Wiki (0.00 s): ID" in "".join(line[:19] for line in lines)
        assert "✗ none_9: LLM tool none_9 does not exist" in lines
        assert lines[-1].startswith("2 agents, 4 rounds, 3 calls (1 failed: (unknown) 1 of 1), 0.00 s")
        assert ("· round 1 (m@Test)" in lines, "“Hm.”" in lines) == (has_trace, has_trace)


def test_the_totals_of_all_agents() -> None:
    tools = {"look_0": ToolMetrics(3, 1, 2.0), "ask_1": ToolMetrics(1)}
    full = AgentMetrics(2, 3.0, 1.0, 2.0, 5, 0, tools, Usage(1234, 56, 5, 0.00125), 1)
    assert metrics_line(full) == (
        "2 agents, 5 rounds, 4 calls (1 failed: look_0 1 of 3), 3.00 s (model 1.00 s, tools 2.00 s), "
        "1,234 + 56 tokens, cost 0.00125, 1 step not repeated"
    )
    assert metrics_line(AgentMetrics(visits=1, iterations=1)) == (
        "1 agent, 1 round, 0 calls, 0.00 s (model 0.00 s, tools 0.00 s)"
    )
