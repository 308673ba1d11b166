import json
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver

from ragflow_lg.adapters.recording.player import Player
from ragflow_lg.adapters.recording.recorder import Recorder
from ragflow_lg.base.errors import AnswerError, CompileError, RunFailedError, SettingsError
from ragflow_lg.dsl_compiler.source import MAX_BYTES
from ragflow_lg.integrations.code.code_settings import CodeSection
from ragflow_lg.library import check_canvas, open_runner
from ragflow_lg.library import load_canvas as load_graph
from ragflow_lg.runs.runner import Runner
from ragflow_lg.server.assembly.canvas_files import read_canvas
from ragflow_lg.server.assembly.library import check_file, load_canvas
from ragflow_lg.server.assembly.open_services import GUARD_GROUP, open_services, tool_policies
from ragflow_lg.server.assembly.recordings import open_recording
from ragflow_lg.server.settings import Settings
from ragflow_lg.server.settings.limits_section import LimitsSection
from ragflow_lg.server.settings.sections import AgentsSection, HttpSection, ToolSection
from ragflow_lg.services.chat import ChatRequest
from tests.fakes.canvas import canvas, node
from tests.fakes.http_server import HttpServer, Route
from tests.fakes.policies import Guard
from tests.fakes.services import FixedClock, OneModel, Reply, ScriptedModel, fake_services
from tests.harness.rows import each_row
from tests.integrations.code.sandboxes import require_bubblewrap

SUPPORT = Path(__file__).parents[2] / "fixtures" / "drawings" / "support.json"


def test_one_canvas_in_every_form() -> None:
    text = SUPPORT.read_text(encoding="utf-8")
    forms = (SUPPORT, str(SUPPORT), text, "\ufeff \n" + text, text.encode(), json.loads(text))
    assert len({load_canvas(form).plan.canvas_hash for form in forms}) == 1


def test_invalid_and_unreadable_canvases_are_errors(tmp_path: Path) -> None:
    odd_ones: tuple[Any, ...] = ({}, b"")
    for odd in odd_ones:
        with pytest.raises(CompileError):
            load_canvas(odd)
    with pytest.raises(SettingsError, match="is a folder"):
        load_canvas(tmp_path)
    for path in (tmp_path / "none.json", "none\0.json"):
        with pytest.raises(SettingsError, match="cannot be read"):
            load_canvas(path)


def test_a_huge_file_is_reported_as_too_large(tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate(MAX_BYTES * 4)
    assert len(read_canvas(path)) == MAX_BYTES + 1
    plan, diagnostics, _ = check_file(path)
    assert plan is None
    assert [d.code for d in diagnostics] == ["document-too-large"]


def test_limits_are_for_documents_of_others_and_not_for_files(tmp_path: Path) -> None:
    settings = Settings(limits=LimitsSection(canvas_bytes=10))
    path = tmp_path / "canvas.json"
    path.write_bytes(SUPPORT.read_bytes())
    assert load_canvas(path, settings).plan.nodes
    assert not [d for d in check_canvas(path, settings=settings) if d.severity == "error"]
    with pytest.raises(CompileError, match="canvas_bytes"):
        load_canvas(path.read_bytes() + b"\n", settings)  # not from the cache
    assert [d.code for d in check_canvas(path.read_bytes(), settings=settings)] == ["document-too-large"]


async def test_tools_use_the_services_of_the_settings() -> None:
    nodes = {
        "g": node("GitHub", {"query": "{sys.query}"}, ["m"]),
        "m": node("Message", {"content": ["{g@formalized_content}"]}),
    }
    body = '{"items": [{"name": "graph", "html_url": "http://g", "description": "Graphs.", "watchers": 1}]}'
    async with HttpServer([Route("/search/repositories", body=body)]).running() as server:
        address = f"127.0.0.1:{server.port}"
        section = ToolSection.model_validate({"endpoint": f"http://{address}/", "api_key": "t0ken"})
        settings = Settings(tools={"github": section}, http=HttpSection(allow=(address,)))
        async with open_services(settings) as services:
            run = Runner(load_canvas(canvas(nodes)), services).start("s", {"query": "graphs"})
            assert [frame async for frame in run]
    assert (run.status, "Graphs." in run.answer) == ("succeeded", True)
    assert server.received[0].header("Authorization") == "Bearer t0ken"


async def test_a_replay_runs_programs_and_makes_files_again(tmp_path: Path) -> None:
    program: dict[str, Any] = {"script": "def main(q): return q.upper()", "arguments": {"q": "sys.query"}}
    program["outputs"] = {"r": {"type": "String"}}
    document = {"content": "# {c@r}", "output_format": "html", "filename": "d"}
    nodes = {
        "c": node("CodeExec", program, ["d"]),
        "d": node("DocGenerator", document, ["m"]),
        "m": node("Message", {"content": ["{c@r} {d@filename}"]}),
    }
    settings = Settings(code=CodeSection(bubblewrap=require_bubblewrap()))
    shown: list[str] = []
    file = tmp_path / "r.jsonl"
    for opened in (open_recording(file), open_recording(replay=file)):
        with opened as recording:
            async with open_services(settings, recording=recording) as services:
                run = Runner(load_canvas(canvas(nodes)), services).start("s", {"query": "hello"})
                async for _ in run:
                    pass
        assert run.error is None
        shown.append(run.answer)
    assert shown == ["HELLO d.html"] * 2


class Fails(Guard):
    def __init__(self) -> None:
        raise OSError("no list of bad words")


class Half:
    async def before(self, use: Any) -> None: ...


INSTANCE = Guard()


def create_policies(**agents: Any) -> Any:
    return tool_policies(Settings(agents=AgentsSection(**agents)), FixedClock())


@pytest.fixture
def installed_guards(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"strict": "Guard", "instance": "INSTANCE", "fails": "Fails", "half": "Half", "gone": "Gone"}
    points = [metadata.EntryPoint(n, f"{__name__}:{v}", GUARD_GROUP) for n, v in {**names, "twice": "Guard"}.items()]
    points.append(metadata.EntryPoint("twice", "x:y", GUARD_GROUP))

    def find(_: str) -> list[metadata.EntryPoint]:
        return points

    monkeypatch.setattr("ragflow_lg.server.assembly.open_services.find_entry_points", find)


def test_settings_become_policies(installed_guards: None) -> None:
    result = create_policies(allow_tools=["Wikipedia"], cache_tools={"Wikipedia": 60}, guards=["strict", "instance"])
    assert not result.permits.permits(["TavilySearch"])
    assert result.cache.covers(["Wikipedia"])
    assert [type(guard) for guard in result.guards] == [Guard, Guard]


@each_row(
    ("name", "problem"),
    [
        ("none", "no installed package provides it"),
        ("twice", "several installed packages"),
        ("fails", "cannot be created: OSError: no list of bad words"),
        ("half", "lacks the methods before and after"),
        ("gone", "cannot be loaded"),
    ],
)
def test_a_guard_that_cannot_be_used_is_an_error(installed_guards: None, name: str, problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        create_policies(guards=[name])


BROKEN = canvas({"s": node("StringTransform", {"method": "split", "split_ref": "sys.conversation_turns"})})


async def test_a_failed_turn_raises_a_typed_error() -> None:
    graph = load_graph(BROKEN, settings=Settings(), checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "t"}}
    with pytest.raises(RunFailedError) as raised:
        await graph.ainvoke({"query": "q"}, thread)
    error = raised.value
    assert (error.node, error.code, "must be a string" in error.cause) == ("s", "run-failed", True)
    assert (await graph.aget_state(thread)).values["turn"]["status"] == "failed"
    with pytest.raises(RunFailedError):
        graph.invoke({"query": "q"}, thread)
    parts = [part async for part in graph.astream({"query": "q"}, thread, stream_mode="values")]
    assert parts[-1]["turn"]["status"] == "failed"
    state: Any = await load_graph(BROKEN, settings=Settings(), raise_errors=False).ainvoke({"query": "q"})
    assert (state["error"]["node"], state["error"]["code"]) == ("s", "run-failed")


FIELDS: dict[str, Any] = {"doc": {"name": "Document", "type": "line"}, "big": {"type": "boolean", "optional": True}}
TASK: dict[str, Any] = canvas({"m": node("Message", {"content": ["{begin@doc} {% if {begin@big} %}big{% endif %}"]})})
TASK["components"]["begin"]["obj"]["params"] = {"inputs": FIELDS}


@each_row(
    ("inputs", "problem"),
    [
        ({}, "'Document' (doc) is required."),
        ({"doc": "D", "big": "perhaps"}, "'big' should be true or false, not 'perhaps'."),
        ({"dok": "D"}, "`dok` is not a field of Begin's form; did you mean `doc`?"),
    ],
)
async def test_begins_fields_are_checked_in_a_program(inputs: dict[str, Any], problem: str) -> None:
    graph = load_graph(TASK, settings=Settings())
    with pytest.raises(AnswerError) as raised:
        await graph.ainvoke({"query": "go", "inputs": inputs})
    assert str(raised.value) == problem
    async with open_runner(json.dumps(TASK)) as runner:
        with pytest.raises(AnswerError) as raised:
            _ = [event async for event in runner.start("s", {"query": "go", "inputs": inputs})]
        assert str(raised.value) == problem
        run = runner.start("s", {"query": "go", "inputs": {"doc": "D", "big": "false"}})
        _ = [event async for event in run]
        assert run.answer == "D "
    state = await graph.ainvoke({"query": "go", "inputs": {"doc": 5, "big": "YES"}})
    assert state["outputs"]["m"]["content"] == "5 big"


def test_tools_of_the_caller_are_known_to_this_canvas_only() -> None:
    def shout(text: str) -> str:
        """Shout."""
        return text.upper()

    echo = StructuredTool.from_function(shout, name="loud")
    document = canvas(
        {
            "a": node("loud", {"arguments": {"text": "{sys.query}"}}, ["b"]),
            "b": node("shout", {"arguments": {"text": "{a@result}?"}}, ["out"]),
            "out": node("Message", {"content": ["{b@result}!"]}),
        }
    )
    text = json.dumps(document)
    with pytest.raises(CompileError, match="loud"):
        load_graph(text, model="demo")
    graph = load_graph(text, model="demo", tools=[echo, shout])
    assert graph.invoke({"query": "hi"})["messages"][-1]["content"] == "HI?!"
    with pytest.raises(SettingsError, match="'loud' has the name of a component or of another tool"):
        load_graph(text, tools=[echo, echo])
    with pytest.raises(SettingsError, match="not a function"):
        load_graph(text, tools=["loud"])
    with pytest.raises(CompileError, match="loud"):
        load_graph(text, model="demo")


@pytest.mark.parametrize(
    "source",
    [
        {"env.api_key": "canvas-key-0001"},
        '\ufeff{"env.api_key": "canvas-key-0001"}',
        b'{"env.api_key": "canvas-key-0001"}',
        '{"env.api_key": "canvas-key-0001", broken',
    ],
)
async def test_secrets_of_settings_and_documents_are_redacted_from_the_first_request_on(
    tmp_path: Path, source: str | bytes | dict[str, Any]
) -> None:
    file = tmp_path / "r.jsonl"
    with open_recording(file, secrets=["settings-key-0002"], sources=[source]) as recording:
        assert isinstance(recording, Recorder)
        services = recording.wrap(fake_services(models=OneModel(ScriptedModel([Reply("canvas-key-0001")]))))
        await services.models.model("m").complete(ChatRequest("settings-key-0002", ()))
    text = file.read_text()
    assert "canvas-key" not in text
    assert "settings-key" not in text
    with open_recording(replay=file) as recording:
        assert isinstance(recording, Player)
