"""CodeExec: run a Python or JavaScript program in a sandbox."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypeAlias, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, ValidationInfo

from ragflow_lg.base.diagnostics import Finding
from ragflow_lg.base.errors import CodeLimitError, ComponentError, RagflowLgError, ServiceError, SettingsError
from ragflow_lg.base.lenient_values import as_map
from ragflow_lg.base.values import JsonValue, read_path, to_json
from ragflow_lg.component.decorator import RunContext, component
from ragflow_lg.component.spec import (
    ComponentOutputs,
    ComponentParams,
    OptionalReference,
    ToolExample,
    ToolResult,
    ToolRules,
)
from ragflow_lg.dsl.code_contract import apply_contract, find_contract_fault, read_printed, roots_of
from ragflow_lg.dsl.old_values import code_outputs
from ragflow_lg.dsl.value_types import Schema, schema_of_name
from ragflow_lg.dsl.variable_references import Template, parse_template, scope_of
from ragflow_lg.integrations.code.programs import CodeRequest, CodeResult, CodeSandbox, Language
from ragflow_lg.services.artifacts import Artifact, StoredArtifact

logger = logging.getLogger(__name__)

LANGUAGES: Mapping[str, Language] = {
    "python": "python",
    "python3": "python",
    "javascript": "javascript",
    "nodejs": "javascript",
}
DEFAULT_OUTPUTS: Mapping[str, Any] = {
    "result": {"value": "", "type": "object"},
    "attachments": {"value": [], "type": "Array<String>"},
}
_ATTACHMENT_KINDS = {"application/pdf": "pdf", "text/csv": "csv", "application/json": "json", "text/html": "html"}
_MAX_LOGGED_CHARS = 500


def _script_template(value: Any, info: ValidationInfo) -> Any:
    """Read a script as a template. ``{item}`` and ``{index}`` are no references: programs use such names themselves."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError("must be a program")
    scope = scope_of(info)
    return parse_template(value, None if scope is None else scope._replace(has_aliases=False))


Script: TypeAlias = Annotated[Template, BeforeValidator(_script_template), PlainSerializer(str, when_used="json")]


class Params(ComponentParams):
    """Parameters of CodeExec."""

    lang: Literal["python", "python3", "javascript", "nodejs"] = "python"
    script: Script = Field(
        default_factory=lambda: parse_template('def main(arg1: str, arg2: str) -> dict: return {"result": arg1 + arg2}')
    )
    """The program, which defines ``main``. References in it are replaced by the text of their values."""
    arguments: dict[str, Annotated[OptionalReference, BeforeValidator(lambda value: value or None)]] = Field(
        default_factory=dict[str, Any]
    )
    """The arguments of ``main``: names and references; null for a blank one."""
    outputs: Any = Field(default_factory=lambda: dict(DEFAULT_OUTPUTS))
    """The outputs. One that is not an output of every CodeExec receives the value of ``main``; several receive the
    entries of a map or list. Values have the ``type``: String, Number, Boolean, Object, Null, Any or ``Array<…>``."""


class Outputs(ComponentOutputs):
    """The value of ``main`` in several forms, and the files that the program created."""

    content: str | None = None
    """The value as text, followed by the texts of the files."""
    actual_type: str | None = None
    """The type of the value."""
    raw_result: JsonValue = None
    """The value, whatever its type."""
    attachments: list[str] | None = None
    """Markdown links to the files; images are embedded."""


class Arguments(BaseModel):
    """The program of a model. Values for the canvas's ``arguments`` can be passed as well."""

    model_config = ConfigDict(extra="allow")

    lang: Literal["python", "javascript", "python3", "nodejs"] = Field(
        "python", description="The language of the program.", json_schema_extra={"enum": ["python", "javascript"]}
    )
    script: str = Field("", description="The program. It must define a function main.")


def _output_schemas(params: Params) -> Mapping[str, Schema]:
    """Return the declared types: the value of a program that does not have its type is an error."""
    return {name: schema_of_name(as_map(declared).get("type")) for name, declared in _declared(params).items()}


def _lint(params: Params) -> Iterable[Finding]:
    if fault := find_contract_fault(_declared(params)):
        message = f"No value of the program fits the declared outputs, so CodeExec fails. {fault}"
        yield Finding("code-outputs", "warning", ("outputs",), message)


async def _as_tool(ctx: RunContext, params: Params, arguments: Arguments) -> ToolResult:
    """Run a model's program. The model sees all outputs, also those of a program that failed."""
    initial = {name: to_json(read_path(value, ["value"])) for name, value in _declared(params).items()}
    try:
        outputs = await _execute(ctx, params, arguments)
    except ComponentError as error:
        return ToolResult({**initial, "_ERROR": str(error)})
    return ToolResult({**initial, **outputs}, outputs)


@component(
    "CodeExec",
    params=Params,
    outputs=Outputs,
    lint=_lint,
    output_names=lambda params: ("_ERROR", "_ARTIFACTS", "_ATTACHMENT_CONTENT", *roots_of(_declared(params))),
    output_schemas=_output_schemas,
    shows_default=True,
    tool=ToolRules("execute_code", Arguments, _as_tool, "script", ("lang", "script")),
    example=ToolExample(
        "[code] provider and its limits; `ragflow-lg doctor` shows the sandbox",
        node_params={
            "lang": "python",
            "script": "def main(text):\n    return text.upper()",
            "arguments": {"text": "sys.query"},
            "outputs": {"result": {"type": "String"}},
        },
    ),
    effects="pays",
    description=(
        "Run a program in Python or JavaScript in a sandbox without network, and return the value of its function "
        "main as JSON. Python: def main(): return {...}. JavaScript: function main(args) { return {...}; }. "
        "Files that the program saves to the folder artifacts/ (png, jpg, svg, pdf, csv, json, html) become "
        "downloads of the answer."
    ),
    source="agent/tools/code_exec.py",
)
async def code_exec(ctx: RunContext, params: Params) -> Outputs:
    """Run the program of the canvas."""
    script = _expand(ctx, params.script)
    ctx.report_inputs({"lang": params.lang, "script": script})
    outputs = await _execute(ctx, params, Arguments(lang=params.lang, script=script))
    if outputs["_ERROR"]:
        ctx.partial.update({name: value for name, value in outputs.items() if name != "_ERROR"})
        raise ComponentError(str(outputs["_ERROR"]), node=ctx.node.id)
    return Outputs.model_validate(outputs)


def _declared(params: Params) -> Mapping[str, Any]:
    outputs: Any = params.outputs
    return as_map(outputs)


def _expand(ctx: RunContext, script: Template) -> str:
    """Replace the references. Names of variables that do not exist remain, such as Python's ``{sys.argv}``."""
    pieces: list[str] = []
    for segment in script.segments:
        if isinstance(segment, str):
            pieces.append(segment)
        elif segment.kind == "global" and segment.key not in ctx.global_names:
            pieces.append(f"{{{segment.text}}}")
        else:
            pieces.append(ctx.text_of(segment))
    return ctx.charge("".join(pieces))


async def _execute(ctx: RunContext, params: Params, arguments: Arguments) -> dict[str, JsonValue]:
    """Run a program and return the outputs."""
    given = arguments.model_extra or {}
    values = {
        name: given.get(name) or (None if reference is None else ctx.value(reference))
        for name, reference in params.arguments.items()
    }
    try:
        plain = cast("dict[str, JsonValue]", to_json(values))
        result = await ctx.services.of(CodeSandbox).run(CodeRequest(LANGUAGES[arguments.lang], arguments.script, plain))
    except (CodeLimitError, SettingsError) as error:
        raise ComponentError(str(error), node=ctx.node.id) from error
    except ServiceError as error:
        raise ComponentError(f"Provider system execution failed: {error}", node=ctx.node.id) from error
    if result.stderr and not (result.has_value or result.artifacts or result.stdout.strip()):
        raise ComponentError(result.stderr, node=ctx.node.id)
    if result.stderr:
        logger.info("Code of %s printed to standard error: %s", ctx.node.id, result.stderr[:_MAX_LOGGED_CHARS])
    workers = ctx.services.workers
    value = result.value if result.has_value else await workers.run(read_printed, result.stdout)
    if ctx.compatibility.old_values:
        outputs = await workers.run(code_outputs, value, dict(_declared(params)))
    else:
        has_printed = bool(result.stdout.strip())
        outputs = await workers.run(apply_contract, value, dict(_declared(params)), has_printed=has_printed)
    content = str(outputs.pop("content"))
    return {**outputs, **await _keep_artifacts(ctx, result, content)}


async def _keep_artifacts(ctx: RunContext, result: CodeResult, content: str) -> dict[str, JsonValue]:
    """Keep the files of a program, and return the outputs about them."""
    stored = [(artifact, await _keep(ctx, artifact)) for artifact in result.artifacts]
    sections = [f"{_title(index, artifact)}\n{kept.text}".strip() for index, (artifact, kept) in enumerate(stored, 1)]
    text = "\n\n".join([f"attachment_count: {len(sections)}", *sections]) if stored else ""
    files = [_describe(artifact, kept) for artifact, kept in stored]
    return {
        "_ARTIFACTS": to_json(files) or None,
        "_ATTACHMENT_CONTENT": text,
        "attachments": to_json([_link(artifact, kept) for artifact, kept in stored]),
        "content": ctx.charge("\n\n".join(part for part in (content, text) if part).strip()),
    }


async def _keep(ctx: RunContext, artifact: Artifact) -> StoredArtifact:
    try:
        return await ctx.services.artifacts.store(artifact)
    except RagflowLgError as error:
        logger.warning("The artifact %s of %s is not kept: %s", artifact.name, ctx.node.id, error)
        return StoredArtifact(text=f"The file cannot be downloaded: {error}")


def _describe(artifact: Artifact, kept: StoredArtifact) -> dict[str, JsonValue]:
    return {"name": artifact.name, "url": kept.url, "mime_type": artifact.mime_type, "size": len(artifact.content)}


def _title(number: int, artifact: Artifact) -> str:
    is_image = artifact.mime_type.startswith("image/")
    extension = artifact.name.rpartition(".")[2].lower() if "." in artifact.name else ""
    kind = "image" if is_image else _ATTACHMENT_KINDS.get(artifact.mime_type) or extension or "file"
    return f"attachment{number} ({kind}): {artifact.name}"


def _link(artifact: Artifact, kept: StoredArtifact) -> str:
    if not kept.url:
        return artifact.name
    prefix = "!" if artifact.mime_type.startswith("image/") else ""
    label = artifact.name if prefix else f"Download {artifact.name}"
    return f"{prefix}[{label}]({kept.url})"
