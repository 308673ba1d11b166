"""Browser: a chat model that operates web pages."""

from __future__ import annotations

import mimetypes
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Annotated, Any, cast

from pydantic import AfterValidator, BeforeValidator, Field, field_validator

from ragflow_lg.agents.agent_run import AgentLoop
from ragflow_lg.agents.strategies import choose_strategy, load_strategy
from ragflow_lg.base.errors import ComponentError, ForeignJsonError, RagflowLgError, RunCancelled, ServiceError
from ragflow_lg.base.json_scanner import parse_foreign_json
from ragflow_lg.base.thinking import strip_thinking
from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.decorator import RunContext, component
from ragflow_lg.component.spec import ComponentOutputs, TemplateOrValue
from ragflow_lg.dsl.variable_references import Reference, Template, parse_template
from ragflow_lg.integrations.browser.browser_tools import BrowserSession, BrowserToolbox
from ragflow_lg.integrations.browser.browsers import BrowserFile, Browsers
from ragflow_lg.models.chat_params import CHAT_UNUSED, ChatParams, rename_params
from ragflow_lg.models.engine_prompts import describe_today, engine_prompt
from ragflow_lg.services.chat import ChatRequest
from ragflow_lg.services.http import HttpRequest

MAX_UPLOADS = 20
MAX_UPLOAD_BYTES = 32 * 1024 * 1024
"""Maximum size of all files that may be uploaded together."""
UPLOAD_S = 30.0
TIMEOUT_S = 1200.0

_GO_NAMES = {"model_id": "llm_id", "prompt": "prompts"}
_KEYS = ("file_id", "id", "url", "value")


def _split_sources(value: Any) -> Any:
    """Read a list that is written as text: JSON, or entries separated by commas."""
    if not isinstance(value, str):
        return [] if value is None else cast("Any", value) if isinstance(value, list | tuple) else [value]
    text = value.strip()
    if text.startswith("["):
        with suppress(ForeignJsonError):
            return parse_foreign_json(text)
    if text.startswith(("http://", "https://")):
        return [text]
    return [part.strip() for part in text.split(",") if part.strip()]


def _require_text(prompts: Template) -> Template:
    if not prompts.source.strip():
        raise ValueError("must not be empty")
    return prompts


class Params(ChatParams):
    """Parameters of Browser."""

    prompts: Annotated[Template, AfterValidator(_require_text)] = Field(
        default_factory=lambda: parse_template("{sys.query}")
    )
    """The task."""
    url: Template = Template("", ())
    """The address at which the model begins, if the task does not say it."""
    max_steps: Annotated[int, Field(gt=0, le=200)] = 30
    """Maximum number of actions."""
    upload_sources: Annotated[list[TemplateOrValue], BeforeValidator(_split_sources)] = Field(default_factory=list[Any])
    """Files that the model may upload: ids, addresses, references, or maps with ``file_id``, ``id``, ``url`` or
    ``value``; as a list, as JSON, or separated by commas."""
    timeout: Annotated[float, Field(gt=0, le=TIMEOUT_S)] | None = None
    """Time limit in seconds. Default: 1200."""
    headless: bool = True
    """Not used: ``headless`` in ``[browser]`` decides."""
    enable_default_extensions: bool = False
    """Not used: there are no extensions."""
    chromium_sandbox: bool = False
    """Not used: ``sandbox`` in ``[browser]`` decides."""
    persist_session: bool = True
    """Not used: every execution starts with an empty profile."""

    @field_validator("prompts", mode="before")
    @classmethod
    def _first_prompt(cls, value: Any) -> Any:
        """Read the prompt from a list of messages, which editors write for other components."""
        entries = cast("list[Any]", value) if isinstance(value, list) else []
        if len(entries) == 1 and isinstance(entries[0], Mapping):
            return cast("Mapping[str, Any]", entries[0]).get("content", "")
        return cast("Any", value)


class Outputs(ComponentOutputs):
    """The answer, and the files that were downloaded."""

    declared_by_default = frozenset({"content", "downloaded_files"})

    content: str = ""
    downloaded_files: list[Any] = Field(default_factory=list[Any])
    """``{file_id, name, size, parent_id, mime_type, url}`` of each file."""


@component(
    "Browser",
    params=Params,
    outputs=Outputs,
    timeout_s=lambda params: params.timeout or TIMEOUT_S,
    rewrite=lambda params: rename_params(params, _GO_NAMES),
    unused=CHAT_UNUSED | {"cite", "sys_prompt", "visual_files_var"},
    requires=lambda params: params.requirements,
    effects="pays",
    description="Let a chat model operate web pages in a browser.",
    source="agent/component/browser.py",
)
async def browser(ctx: RunContext, params: Params) -> Outputs:
    """Let the model act until it answers."""
    ctx.services.of(Browsers).check()  # before anything is paid for
    try:
        files = await _load_files(ctx, params)
        async with BrowserSession(ctx, files) as session:
            try:
                content = await _browse(ctx, params, session, files)
            finally:
                ctx.partial["downloaded_files"] = _with_parent(session)
    except ServiceError as error:
        raise ComponentError(str(error), node=ctx.node.id) from error
    return Outputs(content=content, downloaded_files=_with_parent(session))


def _with_parent(session: BrowserSession) -> list[JsonValue]:
    """Return the downloads with RAGFlow's field for the folder of a file; here files have no folder."""
    return [{**file, "parent_id": ""} for file in session.downloads]


async def _browse(ctx: RunContext, params: Params, session: BrowserSession, files: Iterable[BrowserFile]) -> str:
    model = ctx.services.models.model(params.llm_id or "")
    names = "\n".join(f"- {file.name}" for file in files)
    system = engine_prompt(
        ctx,
        "browser",
        today=describe_today(ctx),
        max_steps=str(params.max_steps),
        files=f"\n\nFiles that may be uploaded:\n{names}" if names else "",
    )
    task = ctx.text(params.prompts)
    if start := ctx.text(params.url).strip():
        task = f"{task}\n\nBegin at: {start}"
    request = ChatRequest(system, ({"role": "user", "content": task},), params.sampling, params.thinking_mode)
    toolbox = BrowserToolbox(ctx, session, params.max_steps)
    if not toolbox.schemas:
        raise ComponentError(
            "The settings do not permit Browser (allow_tools, deny_tools in [agents]).", node=ctx.node.id
        )
    run = AgentLoop(ctx, model, request, toolbox, params.max_steps - 1)
    return strip_thinking(await run.play(load_strategy(choose_strategy(model, None))))


# Files to upload


async def _load_files(ctx: RunContext, params: Params) -> list[BrowserFile]:
    """Return the files that the model may upload, under different names."""
    files: dict[str, BrowserFile] = {}
    sources = [source for value in params.upload_sources for source in _find_sources(ctx, value)]
    if len(sources) > MAX_UPLOADS:
        raise ComponentError(f"upload_sources has more than {MAX_UPLOADS} files.", node=ctx.node.id)
    for source in sources:
        file = await _load(ctx, source)
        number, name = 1, file.name
        while name in files:
            number += 1
            stem, dot, ending = file.name.rpartition(".")
            name = f"{stem}-{number}{dot}{ending}" if dot else f"{file.name}-{number}"
        files[name] = BrowserFile(name, file.media_type, file.content)
        if sum(len(each.content) for each in files.values()) > MAX_UPLOAD_BYTES:
            raise ComponentError(f"The files to upload exceed {MAX_UPLOAD_BYTES:,} bytes.", node=ctx.node.id)
    return [*files.values()]


def _find_sources(ctx: RunContext, value: Any, depth: int = 0) -> Iterable[Any]:
    """Yield the files in a value: texts, and maps that describe a file."""
    if isinstance(value, Template):
        only = value.segments[0] if len(value.segments) == 1 else None
        value = ctx.files(only) if isinstance(only, Reference) else ctx.resolve(value)
        if isinstance(value, str):
            value = _split_sources(value)
    if isinstance(value, str):
        if value.strip():
            yield value.strip()
    elif isinstance(value, list) and depth < 8:
        for entry in cast("list[Any]", value):
            yield from _find_sources(ctx, entry, depth + 1)
    elif isinstance(value, Mapping):
        fields = cast("Mapping[str, Any]", value)
        inner = next((fields[key] for key in _KEYS if fields.get(key)), None)
        if isinstance(inner, str) and (inner.startswith(("http://", "https://", "data:")) or "id" not in fields):
            yield inner
        elif inner is not None:
            yield dict(fields)


async def _load(ctx: RunContext, source: Any) -> BrowserFile:
    name = str(source)[:100]
    if isinstance(source, str) and source.startswith(("http://", "https://")):
        request = HttpRequest("GET", source, timeout_s=UPLOAD_S, max_response_bytes=MAX_UPLOAD_BYTES, is_binary=True)
        response = await ctx.services.http.send(request)
        if response.status != 200:
            raise ComponentError(f"The file to upload {name!r} answered {response.status}.", node=ctx.node.id)
        last = source.partition("?")[0].rstrip("/").rpartition("/")[2]
        return _file(last or "file", response.content)
    try:
        content = await ctx.services.files.load(source if isinstance(source, Mapping) else {"id": source})
    except RunCancelled:
        raise
    except RagflowLgError as error:
        raise ComponentError(f"The file to upload {name!r} cannot be read: {error}", node=ctx.node.id) from error
    if content is None:
        raise ComponentError(f"There is no file to upload {name!r}.", node=ctx.node.id)
    return _file(content.name, content.content)


def _file(name: str, content: bytes) -> BrowserFile:
    return BrowserFile(name, mimetypes.guess_type(name)[0] or "application/octet-stream", content)
