"""``ragflow-lg kb``: the datasets of the embedded knowledge base."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.cli.command_group import make_group
from ragflow_lg.server.cli.kb_add import add
from ragflow_lg.server.cli.kb_search import export, get_dataset, knowledge_database, search
from ragflow_lg.server.cli.options import SettingsFile
from ragflow_lg.server.cli.terminal import count_of, print_line

if TYPE_CHECKING:
    from ragflow_lg.adapters.knowledge.knowledge_records import DatasetRecord

kb = make_group("Manage datasets of the embedded knowledge base.")
kb.command(no_args_is_help=True)(add)
kb.command(no_args_is_help=True)(search)
kb.command(no_args_is_help=True)(export)


@kb.command(no_args_is_help=True)
def create(
    name: Annotated[str, typer.Argument(help="Name; canvases can use it in place of the id.", metavar="NAME")],
    id_: Annotated[str, typer.Option("--id", help="Id of the dataset in RAGFlow's canvases. Default: a new one.")] = "",
    embedding: Annotated[
        str,
        typer.Option("--embedding", help='ID of [embeddings."ID"]. Default: from the settings.', metavar="ID"),
    ] = "",
    chunk_tokens: Annotated[int, typer.Option(help="Maximum length of a chunk, in tokens.", min=16, max=8192)] = 256,
    overlap_tokens: Annotated[
        int, typer.Option(help="Tokens of a chunk that are repeated in the next one.", min=0, max=2048)
    ] = 32,
    settings: SettingsFile = None,
) -> None:
    """Create an empty dataset. Not needed if you use the defaults: `kb add` creates missing datasets.

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
                raise SettingsError(f"The dataset {key!r} already exists; `ragflow-lg kb list` lists all datasets.")
        dataset = add_dataset(
            connection,
            name,
            embedding or embedders.default,
            id_=id_,
            chunk_tokens=chunk_tokens,
            overlap_tokens=min(overlap_tokens, chunk_tokens // 2),
        )
    print_line(f"{dataset.name}  {dataset.id}  {dataset.embedding_model}")


@kb.command("list")
def list_(
    dataset: Annotated[str, typer.Argument(help="List the documents of this dataset.", metavar="[DATASET]")] = "",
    settings: SettingsFile = None,
) -> None:
    """List datasets with their documents, chunks, embedding model and id, or list one dataset's documents.

    Example: ragflow-lg kb list handbook
    """
    from ragflow_lg.adapters.knowledge.indexing import MAX_CHUNKS
    from ragflow_lg.adapters.knowledge.knowledge_records import list_datasets, list_documents

    database = knowledge_database(settings)
    if dataset:
        record = get_dataset(database, dataset)
        with database.reading() as connection:
            documents = list_documents(connection, record.number)
        for document in documents:
            state = "" if document.is_complete else "  incomplete: run `kb add` again"
            print_line(f"{document.name}  {count_of(document.chunks, 'chunk')}  {document.id}{state}")
        return
    datasets: list[DatasetRecord] = []
    if database.exists:
        with database.reading() as connection:
            datasets = list_datasets(connection)
    for record in datasets:
        size = f"{count_of(record.documents, 'document')}  {count_of(record.chunks, 'chunk')}"
        print_line(f"{record.name}  {size}  {record.embedding_model}  {record.id}")
        if record.chunks > MAX_CHUNKS:
            print_line(f"  more than {MAX_CHUNKS:,} chunks: use a server for this size (docs/knowledge.md)")
    if not datasets:
        print_line(f"There are no datasets in {database.path}; `ragflow-lg kb add FOLDER` creates one.")


@kb.command(no_args_is_help=True)
def delete(
    dataset: Annotated[str, typer.Argument(help="Name or id of the dataset.", metavar="DATASET")],
    document: Annotated[
        list[str] | None, typer.Option("--document", help="Delete only this document. Repeatable.", metavar="NAME")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    settings: SettingsFile = None,
) -> None:
    """Delete a dataset, or some of its documents. Source files are not deleted.

    Example: ragflow-lg kb delete handbook --document old/travel.md
    """
    from ragflow_lg.adapters.knowledge.knowledge_records import delete_dataset, delete_document, list_documents

    database = knowledge_database(settings)
    record = get_dataset(database, dataset)
    if not document and not yes:
        typer.confirm(f"Delete {record.name} with {count_of(record.documents, 'document')}?", abort=True, err=True)
    with database.writing() as connection:
        if not document:
            delete_dataset(connection, record.number)
            names = [record.name]
        else:
            numbers = {d.name: d.number for d in list_documents(connection, record.number)}
            if missing := [name for name in document if name not in numbers]:
                raise SettingsError(
                    f"The dataset {record.name!r} has no document {missing[0]!r}; "
                    f"`ragflow-lg kb list {record.name}` lists its documents."
                )
            for name in dict.fromkeys(document):
                delete_document(connection, record.number, numbers[name])
            names = document
    for name in names:
        print_line(f"deleted {name}")
