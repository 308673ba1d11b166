"""``ragflow-lg schedules``: times at which a server starts turns of its agents."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragflow_lg.server.cli.command_line import make_group
from ragflow_lg.server.cli.options import SettingsFile
from ragflow_lg.server.cli.terminal import print_line, print_note

if TYPE_CHECKING:
    from ragflow_lg.server.database.database import Database
    from ragflow_lg.server.database.tables import ScheduleRow
    from ragflow_lg.server.settings import Settings

schedules = make_group(
    "Add, list and delete times at which the server starts turns.\n\nExample: ragflow-lg schedules list"
)

Tenant = Annotated[str, typer.Option("--tenant", help="Tenant to whom the agent belongs.")]
_PAGE_SIZE = 1000


@schedules.command(no_args_is_help=True)
def add(
    agent: Annotated[str, typer.Argument(help="Id or title of the agent.", metavar="AGENT")],
    cron: Annotated[
        str,
        typer.Argument(help="Minute, hour, day of the month, month, day of the week, in one argument.", metavar="CRON"),
    ],
    query: Annotated[str, typer.Option("--query", help="Message that each turn starts with.")] = "",
    time_zone: Annotated[
        str, typer.Option("--time-zone", help="Zone of these times, such as Europe/Berlin.", metavar="ZONE")
    ] = "UTC",
    name: Annotated[
        str, typer.Option("--name", help="Name of its sessions. Default: the beginning of the query.")
    ] = "",
    version: Annotated[
        str, typer.Option("--version", help="draft, published or an id. Default: as for a new session.")
    ] = "",
    tenant: Tenant = "default",
    settings: SettingsFile = None,
) -> None:
    """Add a schedule. At each of its times, a server starts a turn in a new session.

    The output is its id; the next times follow on standard error.

    Example: ragflow-lg schedules add "News agent" "0 9 * * MON" --time-zone Europe/Berlin --query "What is new?"
    """
    from ragflow_lg.adapters.system_services import RandomIds
    from ragflow_lg.server.agents.agent_schedules import NewSchedule, create_schedule, find_next_times, format_times
    from ragflow_lg.server.cli.server_database import find_agent

    new = NewSchedule(cron, time_zone, query, {}, name[:250], version)

    async def store(database: Database, config: Settings) -> None:
        row_agent = await find_agent(database, tenant, agent)
        row = await create_schedule(database, row_agent, RandomIds().run_id(), new, _now_ms())
        print_line(row.id)
        times = format_times(find_next_times(row, _now_ms()), row.time_zone)
        print_note(f"Next: {', '.join(times)}")

    _run(settings, store)


@schedules.command("list")
def list_(tenant: Tenant = "default", settings: SettingsFile = None) -> None:
    """List the schedules of a tenant, with their next times."""
    from ragflow_lg.server.database.due_rows import ScheduleRepository

    async def show(database: Database, _: Settings) -> None:
        repository, page = ScheduleRepository(database, tenant), 1
        while rows := await repository.list("", page, _PAGE_SIZE):
            for row in rows:
                print_line(_describe(row))
            page += 1
        if page == 1:
            print_note(f"The tenant {tenant!r} has no schedules; `ragflow-lg schedules add` adds one.")

    _run(settings, show)


@schedules.command(no_args_is_help=True)
def delete(
    schedule: Annotated[str, typer.Argument(help="Id of the schedule.", metavar="ID")],
    tenant: Tenant = "default",
    settings: SettingsFile = None,
) -> None:
    """Delete a schedule. Runs that it has started go on."""
    from ragflow_lg.base.errors import RequestError
    from ragflow_lg.server.agents.agent_schedules import delete_schedule

    async def remove(database: Database, _: Settings) -> None:
        if not await delete_schedule(database, tenant, schedule):
            raise RequestError(f"The tenant {tenant!r} has no schedule with the id {schedule[:64]!r}.")
        print_line(f"deleted {schedule}")

    _run(settings, remove)


def _run(file: Path | None, work: Callable[[Database, Settings], Awaitable[None]]) -> None:
    """Do some work with the server's database, and write the audit log."""
    import asyncio

    from ragflow_lg.base.errors import RequestError
    from ragflow_lg.server.cli.server_database import open_server_database
    from ragflow_lg.server.database.database import database_file
    from ragflow_lg.server.observability.logs import open_audit
    from ragflow_lg.server.settings import load_settings

    settings = load_settings(file)

    async def run() -> None:
        async with open_server_database(settings) as database:
            if database is None:
                url = settings.server.database.get_secret_value()
                raise RequestError(f"The database {database_file(url)} does not exist; `ragflow-lg serve` creates it.")
            with open_audit(settings.server.audit):
                await work(database, settings)

    asyncio.run(run())


def _describe(row: ScheduleRow) -> str:
    from ragflow_lg.base.errors import RequestError
    from ragflow_lg.server.agents.agent_schedules import find_next_times, format_times

    try:
        times = ", ".join(format_times(find_next_times(row, _now_ms()), row.time_zone))
    except RequestError:
        times = "never"
    error = f"  error: {row.error.splitlines()[0]}" if row.error else ""
    return f"{row.id}  agent {row.agent_id}  {row.cron}  {row.time_zone}  next: {times}  {row.name}".rstrip() + error


def _now_ms() -> int:
    from ragflow_lg.adapters.system_services import SystemClock

    return int(SystemClock().now() * 1000)
