"""Play canvases with a real model: ``python -m tests.campaigns real-model [--short] [SCENE …]``.

llama.cpp serves a model that is small enough for any machine (`tests.harness.llama_server`). It need not be right: in
no scene may anything crash, hang, or look like what it is not, such as an answer that was cut off and does not say so.
Prints a line for each scene. Ten of the collected canvases are played as well, where they are there.
"""

import argparse
import asyncio
import json
import logging
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from langgraph.checkpoint.memory import InMemorySaver
from msgspec import Struct

from ragflow_lg.adapters.chat.ability_probe import probe_abilities
from ragflow_lg.adapters.chat.chat_settings import ChatModelSettings, ModelSettings, ProviderSettings
from ragflow_lg.adapters.chat.model_abilities import Abilities
from ragflow_lg.adapters.chat.model_resolution import ConfiguredModels
from ragflow_lg.adapters.chat.openai_chat import OpenAIChat
from ragflow_lg.base.errors import RagflowLgError
from ragflow_lg.base.lenient_values import as_map
from ragflow_lg.catalog import load_catalog
from ragflow_lg.dsl_compiler import check_canvas, compile_canvas
from ragflow_lg.models.answer_checks import LENGTH_NOTICE
from ragflow_lg.runs.runner import Run, Runner
from ragflow_lg.runs.wire.wire_events import Message, WireNodeFinished
from ragflow_lg.server.assembly.canvas_files import canvas_files
from tests.conftest import SHARED
from tests.fakes.agents import WIKI
from tests.fakes.canvas import canvas, node
from tests.fakes.cut_proxy import CutProxy, cut_proxy
from tests.fakes.services import fake_services
from tests.harness.corpus import play_plan
from tests.harness.llama_server import WINDOW, LlamaServer, is_installed

ROOT = Path(__file__).parents[2]
LIMIT_S = 240.0
CANVASES = 10
"""How many real canvases are played: the smallest ones that compile."""
MODEL = "smol@Local"
SMALL_WINDOW = 256
MANY_TOKENS = 1000
"""A limit of an answer that is still being written when something happens to it."""
STORY = "Tell me a long story about a lighthouse."
PLACE = {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}}, "required": ["city"]}
REPORT = {"type": "object", "properties": {"text": {"type": "string", "minLength": 2000}}, "required": ["text"]}


class Stage(NamedTuple):
    """What scenes need."""

    server: LlamaServer
    slow: CutProxy
    """Sends one token of the server a second."""
    folder: Path
    crashes: list[str]
    """Exceptions of nodes that are not errors of the project."""


class Played(Struct):
    """What a turn has shown."""

    run: Run
    pieces: list[str] = []
    times: list[float] = []
    nodes: dict[str, WireNodeFinished] = {}

    @property
    def notices(self) -> str:
        """What the nodes have said beside their answers."""
        return " ".join(notice for event in self.nodes.values() for notice in event.notices)


@asynccontextmanager
async def open_models(url: str, **settings: Any) -> AsyncGenerator[ConfiguredModels]:
    """Yield models that are all the real one."""
    providers = {"Local": ProviderSettings(f"{url}/v1", timeout_s=LIMIT_S, max_retries=1)}
    models = ConfiguredModels(
        ChatModelSettings(override_model=MODEL, providers=providers, models={MODEL: ModelSettings(**settings)})
    )
    try:
        yield models
    finally:
        await models.aclose()


def one_node(name: str = "LLM", *, is_shown: bool = True, **params: Any) -> dict[str, Any]:
    """Return a canvas with one node that asks the model; a Message shows its answer, or nobody does."""
    asked = {"llm_id": "", "sys_prompt": "", "prompts": "{sys.query}", **params}
    end = node("Message", {"content": ["{a@content}"]}) if is_shown else node("VariableAssigner", {})
    return canvas({"a": node(name, asked, ["out"]), "out": end})


async def play(
    models: ConfiguredModels,
    document: Mapping[str, Any],
    query: str,
    look: Callable[[Played], Awaitable[None]] | None = None,
) -> Played:
    """Play a turn; ``look`` is called after each piece of the answer."""
    return await play_turn(
        Runner(compile_canvas(document, load_catalog()), fake_services(models=models), saver=InMemorySaver()),
        query,
        look,
    )


async def play_turn(runner: Runner, query: str, look: Callable[[Played], Awaitable[None]] | None = None) -> Played:
    """Play a turn of a conversation."""
    played = Played(runner.start("s", {"query": query}))
    async for event in played.run:
        if isinstance(event, WireNodeFinished):
            played.nodes[event.component_id] = event
        if isinstance(event, Message) and event.content:
            played.pieces.append(event.content)
            played.times.append(time.monotonic())
            if look is not None:
                await look(played)
    return played


async def play_file(stage: Stage, path: Path) -> str:
    """Play a canvas, with samples for all services but the model."""
    plan, _ = check_canvas(path.read_bytes(), load_catalog())
    assert plan is not None
    async with open_models(stage.server.url) as models:
        status, error, shown = await play_plan(plan, models=models)
    assert status in ("succeeded", "failed"), status
    assert status == "succeeded" or (error and "\n" not in error and len(error) < 1000), error
    return f"{status}, {len(shown)} characters" if status == "succeeded" else f"stopped: {error}"


async def find_abilities(stage: Stage) -> str:
    """What the model can do is found out."""
    async with open_models(stage.server.url) as models:
        model = models.model("")
        assert isinstance(model, OpenAIChat)
        found = await probe_abilities(model)
    assert found == Abilities(WINDOW, has_vision=False, has_tools=False, has_schemas=True), found
    return str(found)


async def cut_text(stage: Stage) -> str:
    """An answer that reaches its limit says so."""
    async with open_models(stage.server.url) as models:
        played = await play(models, one_node(), STORY)
    assert played.nodes["a"].finish_reason == "length"
    assert "".join(played.pieces).endswith(LENGTH_NOTICE)
    return "says that it was cut off"


async def cut_data(stage: Stage) -> str:
    """Data that was cut off is not used."""
    async with open_models(stage.server.url) as models:
        played = await play(models, one_node(outputs={"structured": REPORT}, is_shown=False), STORY)
    assert played.run.status == "failed"
    assert "cut off" in (played.run.error or ""), played.run.error
    return f"stopped: {played.run.error}"


async def force_schema(stage: Stage) -> str:
    """A schema is forced by the server's grammar, whether the settings say so or not."""
    values: list[Any] = []
    for has_schemas in (None, True):
        async with open_models(stage.server.url, has_schemas=has_schemas) as models:
            document = one_node(outputs={"structured": PLACE}, is_shown=False)
            played = await play(models, document, "The capital of France?")
        assert played.run.status == "succeeded", played.run.error
        values.append(as_map(played.nodes["a"].outputs["structured"]).get("city"))
    assert {*values} <= {"Paris", "Rome"}, values
    return f"valid: {values}"


async def fill_window(stage: Stage) -> str:
    """A conversation that outgrows the window loses its oldest turns, and a long question is cut; both is said."""
    document = compile_canvas(one_node(message_history_window_size=22), load_catalog())
    await stage.server.start(window=SMALL_WINDOW)
    async with open_models(stage.server.url, context_tokens=SMALL_WINDOW) as models:
        runner = Runner(document, fake_services(models=models), saver=InMemorySaver())
        turns = [await play_turn(runner, f"{turn}. " + "Tell me about the sea. " * 12) for turn in range(4)]
        long = await play(models, one_node(), "Tell me about the sea. " * 500)
    await stage.server.start()
    assert [turn.run.error for turn in (*turns, long)] == [None] * 5
    assert "oldest messages" in turns[-1].notices, turns[-1].notices
    assert "the question was cut" in long.notices, long.notices
    return "says what was left out"


async def exceed_window(stage: Stage) -> str:
    """A server that refuses a long request is quoted with the setting."""
    async with open_models(stage.server.url, context_tokens=100_000) as models:
        played = await play(models, one_node(), "Tell me about the sea. " * 600)
    assert played.run.status == "failed"
    assert f"context_tokens = {WINDOW}" in (played.run.error or ""), played.run.error
    return f"stopped: {played.run.error}"


async def refuse_images(stage: Stage) -> str:
    """A model without vision does not get images, which is said."""
    image = "data:image/png;base64,iVBORw0KGgo="
    async with open_models(stage.server.url) as models:
        played = await play(models, one_node(prompts="What is this? {sys.query}"), image)
    assert played.run.status == "succeeded", played.run.error
    assert "accepts no images" in played.notices, played.notices
    return "says that the image was left out"


async def offer_tools(stage: Stage) -> str:
    """An agent's tools are in the prompt, and it says so if it has called none."""
    async with open_models(stage.server.url) as models:
        played = await play(models, one_node("Agent", tools=[WIKI], max_rounds=2), "Who was Ada Lovelace?")
    called = played.nodes["a"].outputs.get("use_tools")
    assert played.run.status == "succeeded" or played.run.error
    assert called or played.run.status == "failed" or "called none" in played.notices, played.notices
    return played.run.error or played.notices or "called a tool"


async def choose_category(stage: Stage) -> str:
    """Whether a branch was the model's choice can be seen."""
    to = {name: {"description": f"It is about {name}.", "to": ["out"]} for name in ("refunds", "parcels", "others")}
    document = canvas(
        {"a": node("Categorize", {"category_description": to}, ["out"]), "out": node("Message", {"content": ["."]})}
    )
    async with open_models(stage.server.url) as models:
        played = await play(models, document, "Where is my parcel?")
    assert played.run.status == "succeeded", played.run.error
    outputs = played.nodes["a"].outputs
    was_chosen = "unmatched_answer" not in outputs
    assert was_chosen or "named no category" in played.notices, played.notices
    return f"{outputs['category_name']}, {'chosen' if was_chosen else 'the default'}"


async def wait_for_tokens(stage: Stage) -> str:
    """One token a second is shown piece by piece."""
    async with open_models(stage.slow.url) as models:
        played = await play(models, one_node(), STORY, _cancel_after(4))
    gaps = [later - earlier for earlier, later in zip(played.times, played.times[1:], strict=False)]
    assert len(gaps) >= 3, (played.pieces, played.run.error)
    assert sum(gaps) / len(gaps) > 0.5, gaps
    return f"{len(played.pieces)} pieces, one each {sum(gaps) / len(gaps):.1f} s"


def _cancel_after(pieces: int) -> Callable[[Played], Awaitable[None]]:
    async def look(played: Played) -> None:
        if len(played.pieces) == pieces:
            played.run.cancel()

    return look


async def cancel(stage: Stage) -> str:
    """A cancelled turn ends at once, keeps what was shown, and frees the server."""
    await stage.server.start(MANY_TOKENS)
    async with open_models(stage.server.url) as models:
        played = await play(models, one_node(), STORY, _cancel_after(2))
        assert played.run.status == "cancelled"
        assert played.nodes["a"].outputs["content"] == "".join(played.pieces)
        began = time.monotonic()
        await play(models, one_node(), "Hello.", _cancel_after(1))
    await stage.server.start()
    return f"kept {len(played.pieces)} pieces; the next answer began after {time.monotonic() - began:.1f} s"


async def kill_the_model(stage: Stage) -> str:
    """The model's server dies in the stream: the error names it, the text stays, and the next turn works again."""

    async def look(played: Played) -> None:
        if len(played.pieces) == 2:
            await stage.server.kill()

    await stage.server.start(MANY_TOKENS)
    async with open_models(stage.server.url) as models:
        played = await play(models, one_node(), STORY, look)
        await stage.server.start()
        after = await play(models, one_node(), "Hello.")
    assert (played.run.status, after.run.status) == ("failed", "succeeded"), after.run.error
    assert "smol" in (played.run.error or ""), played.run.error
    assert played.nodes["a"].outputs["content"] == "".join(played.pieces)
    return f"stopped: {played.run.error}"


async def kill_the_run(stage: Stage) -> str:
    """The run's process dies in the stream: another one continues it to its end."""
    (stage.folder / "s.toml").write_text(f"[providers.Local]\nbase_url = '{stage.slow.url}/v1'\n")
    (stage.folder / "c.json").write_text(json.dumps(one_node()))
    options = ("--settings", "s.toml", "--checkpoint", "sqlite:///kill.db", "--events", "json")
    first = await _command(stage, "run", "c.json", STORY, "--model", MODEL, "--session", "k", *options)
    assert first.stdout is not None
    events = 0
    while (line := await first.stdout.readline()) and '"message"' not in line.decode():
        events += 1
    first.kill()
    left, said = await first.communicate()
    assert line, said.decode()[-500:]
    assert b"workflow_finished" not in left, "it was killed too late"
    (stage.folder / "s.toml").write_text(f"[providers.Local]\nbase_url = '{stage.server.url}/v1'\n")
    second = await _command(stage, "continue", "k", "--model", MODEL, *options)
    text, problems = await second.communicate()
    assert second.returncode == 0, problems.decode()[-500:]
    assert "Traceback" not in problems.decode()
    assert LENGTH_NOTICE.strip() in text.decode(), text
    return f"killed at event {events}, continued with {len(text.splitlines())} events"


async def _command(stage: Stage, *arguments: str) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    command = (sys.executable, "-m", "ragflow_lg", *arguments)
    return await asyncio.create_subprocess_exec(*command, cwd=stage.folder, stdout=pipe, stderr=pipe)


Scene = Callable[[Stage], Awaitable[str]]
SCENES: dict[str, Scene] = {
    "abilities": find_abilities,
    "cut-text": cut_text,
    "cut-data": cut_data,
    "grammar": force_schema,
    "category": choose_category,
    "tools": offer_tools,
    "images": refuse_images,
    "window": fill_window,
    "window-refused": exceed_window,
    "slow": wait_for_tokens,
    "cancel": cancel,
    "kill-model": kill_the_model,
    "kill-run": kill_the_run,
}
SHORT = (
    "abilities", "cut-text", "cut-data", "grammar", "images", "window-refused", "slow", "cancel", "kill-model",
    "customer_service_router",
)  # fmt: skip
"""The scenes of the short form."""


def find_scenes(*, is_short: bool = False) -> dict[str, Scene]:
    """Return all scenes by their names, with those of whole canvases, or those of the short form."""
    files = list(canvas_files(ROOT / "examples"))
    if not is_short:
        corpus = sorted((SHARED / "corpus" / "agent").glob("*.json"), key=lambda path: path.stat().st_size)
        real = (path for path in corpus if check_canvas(path.read_bytes(), load_catalog())[0] is not None)
        files += [path for path, _ in zip(real, range(CANVASES), strict=False)]
    scenes = SCENES | {path.stem: _scene_of(path) for path in files}
    return {name: scenes[name] for name in (SHORT if is_short else scenes)}


def _scene_of(path: Path) -> Scene:
    async def scene(stage: Stage) -> str:
        return await play_file(stage, path)

    return scene


class _Crashes(logging.Handler):
    def __init__(self, found: list[str]) -> None:
        super().__init__(logging.INFO)
        self._found = found

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and not isinstance(record.exc_info[1], RagflowLgError):
            self._found.append(f"{type(record.exc_info[1]).__name__}: {record.exc_info[1]}")


@asynccontextmanager
async def open_stage() -> AsyncGenerator[Stage]:
    """Start the model's server."""
    server, crashes = LlamaServer(), list[str]()
    log, handler = logging.getLogger("ragflow_lg"), _Crashes(crashes)
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        await server.start()
        async with cut_proxy(server.url) as slow:
            slow.pause_s = 1.0
            with tempfile.TemporaryDirectory() as folder:
                yield Stage(server, slow, Path(folder), crashes)
    finally:
        await server.kill()
        log.removeHandler(handler)
        log.setLevel(level)
        log.propagate = True


async def play_scene(stage: Stage, scene: Scene) -> tuple[bool, str]:
    """Return whether a scene went well, and what was seen."""
    stage.crashes.clear()
    try:
        async with asyncio.timeout(LIMIT_S):
            seen = await scene(stage)
    except TimeoutError:
        return False, f"hangs: not finished in {LIMIT_S:.0f} s"
    except Exception as error:  # noqa: BLE001 - what a scene raises is its result
        return False, f"{type(error).__name__}: {error}"
    return not stage.crashes, "; ".join([seen, *stage.crashes])


async def _main(scenes: Mapping[str, Scene]) -> int:
    failed = 0
    async with open_stage() as stage:
        for name, scene in scenes.items():
            began = time.monotonic()
            is_well, seen = await play_scene(stage, scene)
            failed += not is_well
            line = f"{name:<32} {time.monotonic() - began:6.1f} s  {' '.join(seen.split())[:160]}"
            sys.stdout.write(f"{'ok  ' if is_well else 'FAIL'}  {line}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{len(scenes) - failed} passed, {failed} failed\n")
    return int(failed > 0)


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns real-model")
    parser.add_argument("scenes", nargs="*", metavar="SCENE")
    parser.add_argument("--short", action="store_true", help="play what `make test-all` plays")
    given = parser.parse_args()
    scenes = find_scenes(is_short=given.short)
    if unknown := given.scenes and [name for name in given.scenes if name not in scenes]:
        parser.error(f"no scene {unknown[0]!r}; there are {', '.join(scenes)}")
    if not is_installed():
        sys.stderr.write("There is no real model: make services\n")
        return 2
    return asyncio.run(_main({name: scenes[name] for name in given.scenes or scenes}))


if __name__ == "__main__":
    sys.exit(main())
