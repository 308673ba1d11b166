"""LLM: ask a chat model."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from ragflow_lg.base.lenient_values import as_map
from ragflow_lg.base.thinking import AnswerPart
from ragflow_lg.base.values import to_text
from ragflow_lg.component.decorator import RunContext, component
from ragflow_lg.component.spec import ComponentOutputs
from ragflow_lg.models.answer_checks import cut_notice, refuse_cut_sql
from ragflow_lg.models.answer_stream import AnswerStream
from ragflow_lg.models.chat_params import (
    CHAT_UNUSED,
    GO_NAMES,
    PromptedParams,
    answer_calls,
    lint_schema,
    prompt_texts,
    rename_params,
    schema_differences,
    structured_output_names,
    structured_output_schemas,
)
from ragflow_lg.models.citations import require_citations
from ragflow_lg.models.model_call import (
    ask,
    ask_for_answer,
    build_fitted_request,
    find_guidelines,
    has_citations,
    keep_known_citations,
    note_thinking,
    read_structured,
    strip_checked_thinking,
)
from ragflow_lg.models.structured_answer import find_schema, schema_of_keys
from ragflow_lg.services.chat import ChatRequest


class Params(PromptedParams):
    """Parameters of LLM."""

    output_structure: Annotated[dict[str, Any], BeforeValidator(as_map)] = Field(default_factory=dict[str, Any])
    """The keys of an answer in JSON with their types, as RAGFlow 1.0 reads them, or its schema. A schema in ``outputs``
    has precedence. The answer is then in ``content`` as well. What is no map is ignored."""

    @property
    def json_schema(self) -> dict[str, Any] | None:
        """The schema of the answer, if it is structured."""
        return super().json_schema or schema_of_keys(self.output_structure)


class Outputs(ComponentOutputs):
    """The answer: ``content``, or ``structured`` if a schema is declared."""

    content: str | None = None


def _streams(params: Params) -> bool:
    return params.json_schema is None and not params.requires_evidence


@component(
    "LLM",
    kind="model",
    params=Params,
    outputs=Outputs,
    retries=True,
    streams=_streams,
    output_names=structured_output_names,
    model_calls=answer_calls,
    output_schemas=structured_output_schemas,
    lint=lint_schema,
    differences=schema_differences,
    rewrite=lambda params: rename_params(params, GO_NAMES),
    unused=CHAT_UNUSED,
    requires=lambda params: params.requirements,
    prompt_texts=prompt_texts,
    effects="pays",
    description="Ask a chat model.",
    source="agent/component/llm.py",
)
async def llm(ctx: RunContext, params: Params) -> Outputs:
    """Ask the model once for a structured answer, an answer streamed to a Message, or a whole answer."""
    model = ctx.services.models.model(params.llm_id or "")
    schema = params.json_schema
    guidelines = find_guidelines(ctx, params) if ctx.references["chunks"] else ""
    request = await build_fitted_request(ctx, params, model, schema=schema, guidelines=guidelines)
    stream = AnswerStream(ctx, cites=has_citations(ctx, params)) if ctx.is_streaming and _streams(params) else None
    text = (await ask_for_answer(ctx, model, request, stream)).text
    refuse_cut_sql(ctx)
    if stream is not None:
        if notice := cut_notice(ctx, params, text):
            stream.begin()
            await stream.write([AnswerPart(notice)])
        await stream.finish_text()
        note_thinking(ctx, text)
        return Outputs(content=stream.text)

    async def ask_again(request: ChatRequest) -> str:
        return (await ask(ctx, model, request)).text

    if params.requires_evidence:
        text = await require_citations(ctx, model, request, text, ask_again)
    if schema is not None:
        value = await read_structured(ctx, model, text, schema)
        content = None if find_schema(params.outputs) else to_text(value)
        return Outputs.model_validate({"content": content, "structured": value})
    text = keep_known_citations(ctx, params, strip_checked_thinking(ctx, text))
    return Outputs(content=text + cut_notice(ctx, params, text))
