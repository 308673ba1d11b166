"""``ragflow-lg models``: the models that canvases can use, the providers that are known, and a test of each model."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from ragflow_lg.base.errors import RagflowLgError
from ragflow_lg.server.cli.command_line import make_group
from ragflow_lg.server.cli.options import SettingsFile
from ragflow_lg.server.cli.terminal import paint, print_line, print_note

if TYPE_CHECKING:
    from ragflow_lg.server.assembly.model_list import ListedModel
    from ragflow_lg.server.settings import Settings

models = make_group("List and test models and providers.\n\nExample: ragflow-lg models list")


@models.command("list")
def list_(settings: SettingsFile = None) -> None:
    """List the models that the settings name, and the providers whose key is in the environment.

    A canvas can use every model of these providers: MODEL@PROVIDER.

    Example: ragflow-lg models list
    """
    from ragflow_lg.adapters.known_providers import PROVIDERS
    from ragflow_lg.adapters.model_families.families import FAMILIES, missing_packages
    from ragflow_lg.server.assembly.model_list import find_family, list_models
    from ragflow_lg.server.settings import load_settings
    from ragflow_lg.server.settings.dotenv_file import find_untrusted

    loaded = load_settings(settings)
    for model in list_models(loaded):
        mark = "  default" if model.is_default else ""
        print_line(f"{model.id}  {', '.join(model.kinds)}{mark}")
    chat = loaded.chat_settings()
    for name in dict.fromkeys([*chat.providers, *chat.known_providers]):
        variable = PROVIDERS[name].key if name in chat.known_providers else ""
        origin = f"key from {variable}" if variable else "[providers] in the settings"
        missing = missing_packages(family) if (family := find_family(name, chat)) in FAMILIES else ""
        print_line(f"…@{name}  {origin}{f'  not usable: {missing}' if missing else ''}")
    if unused := find_untrusted():
        print_note(f"{unused} is not read, because the folder is not trusted: see `ragflow-lg trust`.")


@models.command()
def providers() -> None:
    """List the providers that RAGFlow knows, what they offer, and the environment variable with their key.

    Some need packages; the last column has the command that installs them.

    Example: ragflow-lg models providers
    """
    from ragflow_lg.adapters.known_providers import PROVIDERS
    from ragflow_lg.adapters.model_families.families import FAMILIES
    from ragflow_lg.base.extras import install_command

    for name, provider in PROVIDERS.items():
        if not provider.family:
            print_line(f"{name}  not available: {provider.note}")
            continue
        key = provider.key or "no key"
        package = f"  {install_command(provider.family)}" if provider.family in FAMILIES else ""
        where = provider.base_url or provider.note
        print_line(f"{name}  {provider.abilities.replace(' ', ', ')}  {key}  {where}{package}")


@models.command("test")
def ask_each(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Models, as in canvases. Default: all of `models list`.", metavar="[MODEL]"),
    ] = None,
    timeout_s: Annotated[float, typer.Option("--timeout", help="Seconds for each model.", min=1, max=600)] = 30.0,
    settings: SettingsFile = None,
) -> None:
    """Ask each model once, and show how long it takes or what is wrong. Exit code 1: a model does not work.

    Each chat model gets a question of five words, each embedding model a text, each rerank model two. What the server
    tells about a chat model is shown with its settings: the window, images, tools, schemas. What an OpenAI-compatible
    server does not tell is found out by up to four requests with answers of a few tokens.

    Example: ragflow-lg models test deepseek-chat@DeepSeek
    """
    from ragflow_lg.server.assembly.model_list import ListedModel, list_models
    from ragflow_lg.server.settings import load_settings

    loaded = load_settings(settings)
    known = list_models(loaded)
    chosen = [model for model in known if model.id in names] if names else known
    missing = [name for name in names or () if name not in {model.id for model in chosen}]
    chosen += [ListedModel(name, name, "", "", ("chat",)) for name in missing]
    if not asyncio.run(_test_all(loaded, chosen, timeout_s)):
        raise typer.Exit(1)


async def _test_all(settings: Settings, chosen: Sequence[ListedModel], timeout_s: float) -> bool:
    """Test models one after the other. Return whether all of them work."""
    from ragflow_lg.adapters.chat.ability_probe import probe_abilities
    from ragflow_lg.adapters.chat.model_resolution import ConfiguredModels
    from ragflow_lg.adapters.chat.openai_chat import OpenAIChat
    from ragflow_lg.server.assembly.model_trial import ask_model
    from ragflow_lg.server.assembly.search_models import SearchModels

    chat, models = ConfiguredModels(settings.chat_settings()), SearchModels(settings)

    async def ask(id_: str) -> str:
        model = chat.model(id_)
        text = await ask_model(model)
        if not isinstance(model, OpenAIChat) or not str(found := await probe_abilities(model)):
            return text
        lines = [f"{found}; to keep this:", f'[models."{model.name}"]', *found.settings]
        return "\n      ".join([text, *(lines if found.settings else [str(found)])])

    async def embed(id_: str) -> str:
        return f"{len(await models.embedders.embedder(id_).embed_question('ready'))} numbers"

    async def rerank(id_: str) -> str:
        scores = await models.rerankers.reranker(id_).scores("ready?", ["ready", "a chair"])
        return f"scores {', '.join(f'{score:.2f}' for score in scores)}"

    calls: dict[str, Callable[[str], Awaitable[str]]] = {"chat": ask, "embedding": embed, "rerank": rerank}
    works = True
    try:
        for model in chosen:
            kind = next((kind for kind in model.kinds if kind in calls), "chat")
            works &= await _test(model.id, kind, calls[kind], timeout_s)
    finally:
        await chat.aclose()
        await models.aclose()
    return works


async def _test(id_: str, kind: str, call: Callable[[str], Awaitable[str]], timeout_s: float) -> bool:
    began = time.monotonic()
    try:
        async with asyncio.timeout(timeout_s):
            answer, *notes = (await call(id_)).splitlines() or [""]
    except (RagflowLgError, TimeoutError) as error:
        problem = str(error) or f"It did not answer in {timeout_s:g} s."
        print_line(f"{paint('fails', 'red')}  {id_}  {kind}  {problem}")
        return False
    print_line(f"{paint('ok', 'green')}  {id_}  {kind}  {time.monotonic() - began:.1f} s  {answer}")
    for note in notes:
        print_line(note)
    return True
