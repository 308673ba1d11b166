"""``ragflow-lg memory``: what canvases remember about users."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import orjson
import typer

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.cli.command_line import make_group
from ragflow_lg.server.cli.options import KeywordsWeight, Output, SettingsFile, Threshold
from ragflow_lg.server.cli.terminal import count_of, one_line, print_line, print_note, write_output

if TYPE_CHECKING:
    from ragflow_lg.integrations.memories.memory_shelf import MemoryShelf
    from ragflow_lg.services.memories import Remembered

T = TypeVar("T")

Memory = Annotated[str, typer.Argument(help='ID of [memories."ID"], or of a created memory.', metavar="MEMORY")]
User = Annotated[str, typer.Option("--user", help="The user: sys.user_id, or what the canvas names.", metavar="USER")]
Tenant = Annotated[str, typer.Option("--tenant", help="Tenant of the agents.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print each entry as a JSON object.")]

memory = make_group(
    "Show, search, export and delete what canvases remember of users.\n\nExample: ragflow-lg memory list"
)

_MAX_CHARS = 300


@memory.command("list")
def list_(
    memory_id: Annotated[str, typer.Argument(help='ID of [memories."ID"].', metavar="[MEMORY]")] = "",
    user: Annotated[
        str | None, typer.Option("--user", help='The user; "" for runs that name none.', metavar="USER")
    ] = None,
    tenant: Tenant = "default",
    as_json: AsJson = False,
    settings: SettingsFile = None,
) -> None:
    """List the memories, a memory's users, or what it contains about a user, newest first.

    Example: ragflow-lg memory list preferences --user anna
    """

    async def show(shelves: Mapping[str, MemoryShelf]) -> None:
        if not memory_id:
            for shelf in shelves.values():
                users = await shelf.users(tenant)
                print_line(f"{shelf.settings.id}  {', '.join(shelf.settings.types)}  {count_of(len(users), 'user')}")
            return
        shelf = _get(shelves, memory_id)
        if user is None:
            for name in await shelf.users(tenant):
                entries = shelf.remembered(await shelf.entries(shelf.namespace(tenant, name)))
                print_line(f"{name or repr(name)}  {count_of(len(entries), 'entry', 'entries')}")
            return
        _print_entries(shelf.remembered(await shelf.entries(shelf.namespace(tenant, user))), as_json=as_json)

    _run(settings, tenant, show)


@memory.command(no_args_is_help=True)
def search(
    memory_id: Memory,
    question: Annotated[str, typer.Argument(help="The question or keywords.", metavar="QUESTION")],
    user: User,
    tenant: Tenant = "default",
    top_n: Annotated[int, typer.Option("--top-n", "-n", help="Number of entries to show.", min=1, max=1000)] = 8,
    threshold: Threshold = 0.2,
    keywords_weight: KeywordsWeight = 0.5,
    as_json: AsJson = False,
    settings: SettingsFile = None,
) -> None:
    """Search what a memory contains about a user, most similar first.

    Example: ragflow-lg memory search preferences "Which tea?" --user anna
    """
    from ragflow_lg.adapters.system_services import SystemClock

    async def find(shelves: Mapping[str, MemoryShelf]) -> list[Remembered]:
        shelf = _get(shelves, memory_id)
        place, now = shelf.namespace(tenant, user), SystemClock().now()
        candidates = [entry for _, entry in await shelf.search(place, question, keywords_weight, now)]
        return sorted(candidates, key=lambda entry: -entry.similarity)[:top_n]

    found = [entry for entry in _run(settings, tenant, find) if entry.similarity >= threshold]
    _print_entries(found, as_json=as_json, has_scores=True)


@memory.command(no_args_is_help=True)
def export(user: User, tenant: Tenant = "default", output: Output = None, settings: SettingsFile = None) -> None:
    """Write everything that all memories contain about a user, one JSON object per line.

    Example: ragflow-lg memory export --user anna -o anna.jsonl
    """

    async def collect(shelves: Mapping[str, MemoryShelf]) -> list[Remembered]:
        entries: list[Remembered] = []
        for shelf in shelves.values():
            entries += shelf.remembered(await shelf.entries(shelf.namespace(tenant, user)))
        return entries

    entries = _run(settings, tenant, collect)
    content = b"".join(orjson.dumps(entry, option=orjson.OPT_APPEND_NEWLINE, default=_as_map) for entry in entries)
    write_output(content, output)
    if output is not None:
        print_note(f"Wrote {count_of(len(entries), 'entry', 'entries')} to {output}.")


@memory.command(no_args_is_help=True)
def delete(
    user: User,
    memory_id: Annotated[str, typer.Argument(help="Only in this memory. Default: in all.", metavar="[MEMORY]")] = "",
    key: Annotated[
        list[str] | None,
        typer.Option("--key", help="Only this entry, and what was extracted from it. Repeatable.", metavar="KEY"),
    ] = None,
    tenant: Tenant = "default",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    settings: SettingsFile = None,
) -> None:
    """Delete what memories contain about a user.

    Example: ragflow-lg memory delete --user anna
    """
    if key and not memory_id:
        raise typer.BadParameter("Name the memory of the entry: ragflow-lg memory delete MEMORY --user USER --key KEY.")
    if not key and not yes:
        where = memory_id or "all memories"
        typer.confirm(f"Delete everything about {user} in {where}?", abort=True, err=True)

    async def remove(shelves: Mapping[str, MemoryShelf]) -> int:
        deleted = 0
        for shelf in [_get(shelves, memory_id)] if memory_id else shelves.values():
            place = shelf.namespace(tenant, user)
            deleted += await (shelf.delete_with_extracted(place, key) if key else shelf.delete_user(place))
        return deleted

    print_line(f"deleted {count_of(_run(settings, tenant, remove), 'entry', 'entries')}")


@memory.command()
def reembed(
    memory_id: Annotated[str, typer.Argument(help="Only this memory. Default: all.", metavar="[MEMORY]")] = "",
    tenant: Tenant = "default",
    settings: SettingsFile = None,
) -> None:
    """Embed the entries that another embedding model has embedded, so that they are found again.

    Example: ragflow-lg memory reembed preferences
    """

    async def embed(shelves: Mapping[str, MemoryShelf]) -> int:
        chosen = [_get(shelves, memory_id)] if memory_id else list(shelves.values())
        return sum([await shelf.embed_again(tenant) for shelf in chosen])

    print_line(f"embedded {count_of(_run(settings, tenant, embed), 'entry', 'entries')} again")


def _get(shelves: Mapping[str, MemoryShelf], memory_id: str) -> MemoryShelf:
    if memory_id not in shelves:
        known = f" There are {', '.join(map(repr, shelves))}." if shelves else ""
        raise SettingsError(f'There is no memory {memory_id!r}. Add [memories."{memory_id}"] to the settings.{known}')
    return shelves[memory_id]


def _run(settings: Path | None, tenant: str, work: Callable[[Mapping[str, MemoryShelf]], Awaitable[T]]) -> T:
    from ragflow_lg.integrations.memories.open_memories import open_shelves
    from ragflow_lg.server.settings import load_settings

    loaded = load_settings(settings)

    async def run() -> T:
        async with open_shelves(loaded) as shelves:
            created = {shelf.settings.id: shelf for shelf in await shelves.created.list(tenant)}
            if not shelves.declared and not created:
                raise SettingsError('The settings declare no memory, and the tenant has none. Add [memories."ID"].')
            return await work({**shelves.declared, **created})

    return asyncio.run(run())


def _print_entries(entries: Sequence[Remembered], *, as_json: bool, has_scores: bool = False) -> None:
    for entry in entries:
        if as_json:
            sys.stdout.write(orjson.dumps(entry, option=orjson.OPT_APPEND_NEWLINE, default=_as_map).decode())
            continue
        score = f"{entry.similarity:.3f}  " if has_scores else ""
        print_line(f"{score}{entry.key}  {entry.type}  {entry.valid_at}")
        print_line(f"   {one_line(entry.content, _MAX_CHARS)}")
    if not entries and not as_json:
        print_line("Nothing is remembered about this user." if not has_scores else "Nothing matches the question.")


def _as_map(entry: Remembered) -> dict[str, object]:
    from msgspec.structs import asdict

    return asdict(entry)
