"""``ragflow-lg kb``: the datasets of the embedded knowledge base."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.cli.kb_add import add
from ragflow_lg.server.cli.kb_database import tell, the_database, the_dataset
from ragflow_lg.server.cli.kb_search import export, search
from ragflow_lg.server.cli.options import SettingsFile
from ragflow_lg.server.cli.terminal import counted

if TYPE_CHECKING:
    from ragflow_lg.adapters.knowledge.knowledge_records import DatasetRecord

__all__ = ["kb"]

kb = typer.Typer(help="Make datasets of files, search and keep them.", no_args_is_help=True, rich_markup_mode=None)
kb.command(no_args_is_help=True)(add)
kb.command(no_args_is_help=True)(search)
kb.command(no_args_is_help=True)(export)


@kb.command(no_args_is_help=True)
def create(
    name: Annotated[str, typer.Argument(help="What canvases call it, in place of an id.", metavar="NAME")],
    id_: Annotated[str, typer.Option("--id", help="Id of the dataset, as a canvas of RAGFlow names it.")] = "",
    embedding: Annotated[
        str, typer.Option("--embedding", help='ID of [embeddings."ID"]. Default: settings.', metavar="ID")
    ] = "",
    chunk_tokens: Annotated[int, typer.Option(help="How long a chunk may be.", min=16, max=8192)] = 256,
    overlap_tokens: Annotated[int, typer.Option(help="How much of a chunk begins the next.", min=0, max=2048)] = 32,
    settings: SettingsFile = None,
) -> None:
    """Make an empty dataset. `kb add` does so by itself where the defaults will do.

    Example: ragflow-lg kb create handbook --embedding bge-m3@SILICONFLOW --chunk-tokens 512
    """
    from ragflow_lg.adapters.knowledge.knowledge_records import add_dataset, find_dataset
    from ragflow_lg.server.assembly.knowledge_sources import SettingsKnowledge
    from ragflow_lg.server.settings import load_settings

    if not name.strip():
        raise typer.BadParameter("A dataset needs a name.")
    knowledge = SettingsKnowledge(load_settings(settings))
    embedders = knowledge.embedders()
    embedders.embedder(embedding or embedders.default)
    with knowledge.embedded().database.writing() as connection:
        for key in filter(None, (name, id_)):
            if find_dataset(connection, key) is not None:
                raise SettingsError(f"There is a dataset {key!r} already; `ragflow-lg kb list` shows it.")
        made = add_dataset(
            connection,
            name,
            embedding or embedders.default,
            id_=id_,
            chunk_tokens=chunk_tokens,
            overlap_tokens=min(overlap_tokens, chunk_tokens // 2),
        )
    tell(f"{made.name}  {made.id}  {made.embedding_model}")


@kb.command("list")
def list_(
    dataset: Annotated[str, typer.Argument(help="Show the documents of this dataset.", metavar="[DATASET]")] = "",
    settings: SettingsFile = None,
) -> None:
    """List datasets: name, documents, chunks, embedding model, id; or the documents of one.

    Example: ragflow-lg kb list handbook
    """
    from ragflow_lg.adapters.knowledge.indexing import MAX_CHUNKS
    from ragflow_lg.adapters.knowledge.knowledge_records import datasets_in, documents_of

    database = the_database(settings)
    if dataset:
        found = the_dataset(database, dataset)
        with database.reading() as connection:
            documents = documents_of(connection, found.number)
        for document in documents:
            state = "" if document.is_complete else "  not complete: run `kb add` again"
            tell(f"{document.name}  {counted(document.chunks, 'chunk')}  {document.id}{state}")
        return
    datasets: list[DatasetRecord] = []
    if database.exists:
        with database.reading() as connection:
            datasets = datasets_in(connection)
    for held in datasets:
        held_here = f"{counted(held.documents, 'document')}  {counted(held.chunks, 'chunk')}"
        tell(f"{held.name}  {held_here}  {held.embedding_model}  {held.id}")
        if held.chunks > MAX_CHUNKS:
            tell(f"  more than {MAX_CHUNKS:,} chunks: a server is the better place (docs/knowledge.md)")
    if not datasets:
        tell(f"There are no datasets in {database.path}; `ragflow-lg kb add FOLDER` makes one.")


@kb.command(no_args_is_help=True)
def delete(
    dataset: Annotated[str, typer.Argument(help="Name or id of the dataset.", metavar="DATASET")],
    document: Annotated[
        list[str] | None, typer.Option("--document", help="Delete only this document.", metavar="NAME")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    settings: SettingsFile = None,
) -> None:
    """Delete a dataset, or some of its documents. Files on disk stay.

    Example: ragflow-lg kb delete handbook --document old/travel.md
    """
    from ragflow_lg.adapters.knowledge.knowledge_records import delete_dataset, delete_document, documents_of

    database = the_database(settings)
    found = the_dataset(database, dataset)
    if not document and not yes:
        typer.confirm(f"Delete {found.name} with {counted(found.documents, 'document')}?", abort=True, err=True)
    with database.writing() as connection:
        if not document:
            delete_dataset(connection, found.number)
            names = [found.name]
        else:
            held = {d.name: d.number for d in documents_of(connection, found.number)}
            if missing := [name for name in document if name not in held]:
                raise SettingsError(
                    f"The dataset {found.name!r} has no document {missing[0]!r}; "
                    f"`ragflow-lg kb list {found.name}` shows them."
                )
            for name in dict.fromkeys(document):
                delete_document(connection, found.number, held[name])
            names = document
    for name in names:
        tell(f"deleted {name}")
