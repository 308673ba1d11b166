"""Routes for missing datasets of the embedded knowledge base: make one from files, or use another one for it."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

from fastapi import Query
from pydantic import BaseModel, Field
from starlette.requests import Request

from ragflow_lg.base.errors import RequestError, ServiceError, SettingsError
from ragflow_lg.integrations.knowledge.indexing import Indexer, SourceFile
from ragflow_lg.integrations.knowledge.knowledge_file import (
    DatasetRecord,
    add_dataset,
    delete_dataset,
    find_dataset,
    use_dataset,
)
from ragflow_lg.integrations.knowledge.knowledge_sources import SettingsKnowledge
from ragflow_lg.server.http.native.native_requests import Body, Line
from ragflow_lg.server.http.native.native_routing import make_native_router
from ragflow_lg.server.http.native.native_settings_routes import require_rights
from ragflow_lg.server.http.native.problem_details import describe_problems
from ragflow_lg.server.http.shared.auth import ApiCaller, Authenticated, get_app_state
from ragflow_lg.server.observability.logs import audit
from ragflow_lg.services.knowledge import Knowledge

if TYPE_CHECKING:
    from ragflow_lg.integrations.knowledge.indexing import AddedFiles

router = make_native_router("settings")

_BODY = {
    "requestBody": {
        "required": True,
        "description": "The content of the file.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


class DatasetAnswer(BaseModel):
    """A dataset after a document was added."""

    id: str
    name: str
    documents: int
    chunks: int
    state: Annotated[str, Field(description="`added`, `changed`, `unchanged` or `duplicate`.")]


@router.put(
    "/datasets/{dataset_id}/documents", openapi_extra=_BODY, responses=describe_problems(403), summary="Add a document"
)
async def add_document(
    dataset_id: str,
    request: Request,
    caller: Authenticated,
    name: Annotated[str, Query(min_length=1, max_length=255, description="Name of the file, with its suffix.")],
    dataset_name: Annotated[str, Query(max_length=255, description="Name of a new dataset. Default: its id.")] = "",
) -> DatasetAnswer:
    """Add a file to a dataset, or replace the one with its name. A missing dataset is made, with this id."""
    knowledge = _find_knowledge(request, caller)
    content, name = await request.body(), name.replace("\\", "/").rpartition("/")[2]
    try:
        answer = await _add(knowledge, dataset_id, dataset_name.strip() or dataset_id, name, content)
    except (ServiceError, SettingsError) as error:
        raise RequestError(str(error), 101, status=422) from error
    audit("document.added", dataset=dataset_id[:200], name=name)
    return answer


class DatasetUse(Body):
    """A dataset that is used for a missing one."""

    use: Annotated[Line, Field(min_length=1, description="Name or id of the dataset that is used instead.")]


@router.put("/datasets/{dataset_id}", responses=describe_problems(403), summary="Use another dataset")
async def use_other(dataset_id: str, body: DatasetUse, request: Request, caller: Authenticated) -> DatasetAnswer:
    """Use a dataset wherever canvases name this id, which no dataset has. A dataset that gets the id replaces it."""
    file = _find_knowledge(request, caller).embedded().file
    try:
        with file.writing() as connection:
            if (record := find_dataset(connection, body.use)) is None:
                raise RequestError(f"There is no dataset {body.use!r}.", status=404)
            use_dataset(connection, dataset_id, record)
    except ServiceError as error:
        raise RequestError(str(error), 101, status=422) from error
    audit("dataset.used", dataset=dataset_id[:200], use=body.use)
    return _describe(record, "unchanged")


def _find_knowledge(request: Request, caller: ApiCaller) -> SettingsKnowledge:
    app_state = get_app_state(request)
    require_rights(app_state, caller.tenant)
    knowledge = app_state.services_of(caller.tenant).find(Knowledge)
    if not isinstance(knowledge, SettingsKnowledge):
        raise RequestError("This server has no datasets of its own.", status=409)
    return knowledge


async def _add(knowledge: SettingsKnowledge, id_: str, title: str, name: str, content: bytes) -> DatasetAnswer:
    file, embedders = knowledge.embedded().file, knowledge.models.embedders
    with file.writing() as connection:
        known = find_dataset(connection, id_)
        dataset = known or add_dataset(connection, title, embedders.default, id_=id_)
    report: AddedFiles | None = None
    try:
        with TemporaryDirectory() as folder:
            path = Path(folder, "document").with_suffix(Path(name).suffix)
            path.write_bytes(content)
            indexer = Indexer(file, dataset, embedders.embedder(dataset.embedding_model))
            report = await indexer.add([SourceFile(path, name)], folder)
    finally:
        with file.writing() as connection:
            record = find_dataset(connection, dataset.id)
            if known is None and record is not None and not record.documents:
                delete_dataset(connection, record.number)
    if reason := report.failed.get(name):
        raise ServiceError(f"{name!r} cannot be added: {reason}.")
    if record is None:
        raise ServiceError("The dataset has been deleted.")
    state = next(
        state for state in ("added", "changed", "unchanged", "duplicates") if name in getattr(report, state)
    ).removesuffix("s")
    return _describe(record, state)


def _describe(record: DatasetRecord, state: str) -> DatasetAnswer:
    return DatasetAnswer(id=record.id, name=record.name, documents=record.documents, chunks=record.chunks, state=state)
