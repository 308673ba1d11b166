"""``ragflow-lg chat``: a conversation with a canvas in the terminal."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ragflow_lg.server.cli.options import Checkpoint, Conversation, Model, SettingsFile


def chat(
    file: Annotated[Path | None, typer.Argument(help="Canvas file.", metavar="[FILE]")] = None,
    dataset: Annotated[
        list[str] | None,
        typer.Option("--dataset", help="Talk with a dataset instead of a canvas; may be repeated.", metavar="NAME"),
    ] = None,
    reasoning: Annotated[
        bool, typer.Option("--reasoning", help="Answer each question from datasets by deep research.")
    ] = False,
    session: Conversation = None,
    model: Model = "",
    checkpoint: Checkpoint = "",
    settings: SettingsFile = None,
) -> None:
    """Talk with a canvas, or with datasets, in the terminal.

    Answers are streamed, forms are asked field by field, and a session is kept as `run` keeps it: continue it later
    with --session. Type /help for the commands.

    Examples:
    ragflow-lg chat examples/hello.json --model demo

    ragflow-lg chat my_canvas.json --session anna

    ragflow-lg chat --dataset handbook --reasoning
    """
    datasets = tuple(dict.fromkeys(dataset or ()))
    if (file is None) == (not datasets):
        raise typer.BadParameter("Name a canvas file, or datasets with --dataset.")
    if reasoning and not datasets:
        raise typer.BadParameter("--reasoning needs --dataset; in a canvas, set strategy of an Agent to deep_research.")
    from ragflow_lg.server.cli.dialogue import require_line_editor

    require_line_editor()
    source = _build_dataset_chat(datasets, has_reasoning=reasoning) if file is None else file.resolve()
    canvas_id = str(source) if file is not None else f"datasets: {', '.join(datasets)}"
    asyncio.run(_converse(source, canvas_id, session or "", model, checkpoint, settings))


async def _converse(
    source: Path | Mapping[str, Any],
    canvas_id: str,
    session: str,
    model: str,
    checkpoint: str,
    settings_file: Path | None,
) -> None:
    from ragflow_lg.server.assembly.canvas_needs import describe_missing
    from ragflow_lg.server.assembly.library import load_canvas
    from ragflow_lg.server.cli.dialogue import Dialogue
    from ragflow_lg.server.cli.play import keep_files, open_runner
    from ragflow_lg.server.cli.terminal import print_note
    from ragflow_lg.server.settings import load_settings

    settings = keep_files(load_settings(settings_file))
    canvas = load_canvas(source, settings, model=model)
    if missing := describe_missing(canvas.plan, settings, has_model=bool(model)):
        print_note(missing)
    url = checkpoint or settings.checkpoints
    async with open_runner(canvas, settings, url, canvas_id=canvas_id, model=model) as (runner, store):
        await Dialogue(canvas, canvas_id, runner, store, session).run()


PROMPT = """\
You answer questions from the passages that were found in the user's documents. If they do not contain the answer, say \
so, and add nothing from other knowledge. Answer in the language of the question."""
_RETRIEVAL = {"retrieval_from": "dataset", "similarity_threshold": 0.2, "keywords_similarity_weight": 0.7, "top_n": 8}
_WINDOW = 12


def _build_dataset_chat(datasets: Sequence[str], *, has_reasoning: bool = False) -> Mapping[str, Any]:
    """Return a canvas that answers from datasets, by one search or by deep research for each question."""
    search = {**_RETRIEVAL, "dataset_ids": list(datasets)}
    model = {
        "llm_id": "",
        "prompts": [{"role": "user", "content": "{sys.query}"}],
        "cite": True,
        "message_history_window_size": _WINDOW,
    }
    components: dict[str, Any] = {}
    if has_reasoning:
        tool = {"component_name": "Retrieval", "name": "Documents", "params": search}
        components["Agent:Answer"] = _node(
            "Agent", {**model, "sys_prompt": PROMPT, "strategy": "deep_research", "tools": [tool]}, "Message:Reply"
        )
        answer = "{Agent:Answer@content}"
    else:
        passages = f"{PROMPT}\n\nPassages:\n{{Retrieval:Search@formalized_content}}"
        components["Retrieval:Search"] = _node("Retrieval", {**search, "query": "{sys.query}"}, "LLM:Answer")
        components["LLM:Answer"] = _node("LLM", {**model, "sys_prompt": passages}, "Message:Reply")
        answer = "{LLM:Answer@content}"
    first = next(iter(components))
    components["Message:Reply"] = _node("Message", {"content": [answer]})
    begin = _node("Begin", {"mode": "conversational", "prologue": ""}, first)
    return {"components": {"begin": begin, **components}}


def _node(name: str, params: dict[str, Any], *downstream: str) -> dict[str, Any]:
    return {"obj": {"component_name": name, "params": params}, "downstream": list(downstream)}
