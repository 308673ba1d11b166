"""Components with effects outside the run ask before they repeat one that a crash has interrupted."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.adapters.http.address_guard import AddressGuard
from ragflow_lg.integrations.email.mail import MailAccount, Mailer
from ragflow_lg.integrations.email.mail_settings import MailServerSettings
from ragflow_lg.integrations.email.smtp_mailer import SmtpMailer
from ragflow_lg.services.databases import Databases
from ragflow_lg.services.http import HttpRequest, HttpResponse
from ragflow_lg.services.services import Services
from tests.fakes.agents import play_agent, tool_calls
from tests.fakes.databases import execute, new_database, open_databases
from tests.fakes.regions import node, out, play_run, runner_of
from tests.fakes.services import Reply, fake_services
from tests.fakes.smtp_server import PASSWORD, USER, certificates, smtp_server
from tests.stores import OpenStore


class ProcessDeath(BaseException):
    """Ends a run as a kill would."""


class Dying:
    """A service whose first calls have their effect, after which the process dies."""

    def __init__(self, service: Any, method: str, deaths: int = 1) -> None:
        self._service = service
        self._method = method
        self._deaths = deaths

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._service, name)
        if name != self._method:
            return function

        async def call(*arguments: Any) -> Any:
            result = await function(*arguments)
            if self._deaths:
                self._deaths -= 1
                raise ProcessDeath
            return result

        return call


class CountingHttp:
    """A client that counts the requests."""

    def __init__(self) -> None:
        self.count = 0

    async def send(self, request: HttpRequest) -> HttpResponse:
        self.count += 1
        return HttpResponse(200, {}, "ok", request.url)


@asynccontextmanager
async def mail(folder: Path) -> AsyncGenerator[tuple[Services, Callable[[], int]]]:
    async with smtp_server() as server:
        settings = MailServerSettings(MailAccount("localhost", server.port, USER, PASSWORD), USER)
        mailer = SmtpMailer({"office": settings}, AddressGuard(), tls=certificates()[1])
        yield fake_services(integrations={Mailer: Dying(mailer, "send")}), lambda: len(server.received)


@asynccontextmanager
async def database(folder: Path) -> AsyncGenerator[tuple[Services, Callable[[], int]]]:
    with new_database("sqlite", folder) as account:
        execute(account, ["CREATE TABLE t (a int)"])
        databases = open_databases(account)
        yield (
            fake_services(integrations={Databases: Dying(databases, "run")}),
            lambda: execute(account, ["SELECT count(*) FROM t"])[0][0],
        )


@asynccontextmanager
async def http(folder: Path) -> AsyncGenerator[tuple[Services, Callable[[], int]]]:
    client = CountingHttp()
    yield fake_services(http=Dying(client, "send")), lambda: client.count


EMAIL = node("Email", {"server": "office", "to_email": "a@example.com"}, ["out"])
INSERT = node("ExeSQL", {"connection": "writer", "sql": "INSERT INTO t VALUES (1)"}, ["out"])
POST = node("Invoke", {"url": "http://shop.test/orders", "method": "post", "variables": []}, ["out"])
EFFECTS = {"Email": (mail, EMAIL), "ExeSQL": (database, INSERT), "Invoke": (http, POST)}


ASKED = {"run it again": "succeeded", "continue with an error": "failed"}


async def play_and_die(services: Services, canvas: Any, reopen: OpenStore) -> None:
    async with reopen() as store:
        with pytest.raises(ProcessDeath):
            await play_run(runner_of(canvas, services=services, store=store).start("s", {"query": "q"}))


@pytest.mark.parametrize("name", EFFECTS)
@pytest.mark.parametrize("decision", ASKED)
async def test_the_run_asks_after_a_crash(name: str, decision: str, tmp_path: Path, reopen_shared: OpenStore) -> None:
    opened, effect = EFFECTS[name]
    async with opened(tmp_path) as (services, effects):
        canvas = {"w": effect, **out("done")}
        await play_and_die(services, canvas, reopen_shared)
        async with reopen_shared() as store:
            runner = runner_of(canvas, services=services, store=store)
            run = runner.continue_("s")
            await play_run(run)
            assert (run.status, effects()) == ("waiting", 1)
            run = runner.resume("s", {"decision": decision})
            await play_run(run)
            assert (run.status, effects()) == (ASKED[decision], 2 if decision == "run it again" else 1)
            history = (await runner.state("s"))["history"]
        assert [role for role, _ in history].count("user") == 1


def repeated(effect: dict[str, Any]) -> dict[str, Any]:
    """Return a node that may be repeated."""
    obj = effect["obj"]
    return {**effect, "obj": {**obj, "params": {**obj["params"], "once_only": False}}}


READS = node("Invoke", {"url": "http://shop.test/x", "variables": []}, ["out"])


@pytest.mark.parametrize(
    ("opened", "effect"),
    [*((opened, repeated(effect)) for opened, effect in EFFECTS.values()), (http, READS)],
    ids=[*EFFECTS, "a request that only reads"],
)
async def test_a_canvas_can_choose_that_it_is_repeated(
    opened: Any, effect: Any, tmp_path: Path, reopen_shared: OpenStore
) -> None:
    async with opened(tmp_path) as (services, effects):
        canvas = {"w": effect, **out("done")}
        await play_and_die(services, canvas, reopen_shared)
        async with reopen_shared() as store:
            run = runner_of(canvas, services=services, store=store).continue_("s")
            await play_run(run)
            assert (run.status, effects()) == ("succeeded", 2)


@pytest.mark.parametrize("decision", ASKED)
async def test_every_crash_is_asked_about(decision: str, reopen_shared: OpenStore) -> None:
    """An answer holds for one interrupted start, not for the next one."""
    client = CountingHttp()
    services = fake_services(http=Dying(client, "send", deaths=2))
    canvas = {"w": POST, **out("done")}
    await play_and_die(services, canvas, reopen_shared)
    async with reopen_shared() as store:
        runner = runner_of(canvas, services=services, store=store)
        await play_run(runner.continue_("s"))
        with pytest.raises(ProcessDeath):
            await play_run(runner.resume("s", {"decision": "run it again"}))
    async with reopen_shared() as store:
        runner = runner_of(canvas, services=services, store=store)
        run = runner.continue_("s")
        await play_run(run)
        assert (run.status, client.count) == ("waiting", 2)
        run = runner.resume("s", {"decision": decision})
        await play_run(run)
    assert (run.status, client.count) == (ASKED[decision], 3 if decision == "run it again" else 2)


@pytest.mark.parametrize("strategy", ["function_calling", "react"])
@pytest.mark.parametrize(("decisions", "count"), [(["run it again"], 2), (["continue with an error"], 1)])
async def test_an_agent_asks_before_it_sends_an_email_again(
    strategy: str, decisions: list[str], count: int, tmp_path: Path, reopen_shared: OpenStore
) -> None:
    arguments = '{"to_email": "ann@example.com", "content": "Hi"}'
    call = tool_calls(("email_0", arguments)) if strategy == "function_calling" else _react_call(arguments)
    replies = [call, Reply("Done.")]
    tools = [{"component_name": "Email", "name": "Mail", "params": {"server": "office"}}]
    params = {"tools": tools, "strategy": strategy}
    async with mail(tmp_path) as (services, effects):
        more: dict[str, Any] = {"services": {"integrations": services.integrations}, "is_shown": False}
        async with reopen_shared() as store:
            with pytest.raises(ProcessDeath):
                await play_agent(replies, params, store=store, **more)
        assert effects() == 1
        async with reopen_shared() as store:
            turn = await play_agent(replies[1:], params, store=store, is_continued=True, decisions=decisions, **more)
        assert (turn.run.status, effects()) == ("succeeded", count)
        told = str(turn.model.requests[-1][1].messages)
        assert ("unknown whether it took effect" in told) is (count == 1)


def _react_call(arguments: str) -> Reply:
    return Reply(f'<tool_call>{{"name": "email_0", "arguments": {arguments}}}</tool_call>')
