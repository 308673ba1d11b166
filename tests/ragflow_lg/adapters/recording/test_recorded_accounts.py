"""Recordings of queries and e-mails."""

from pathlib import Path

from ragflow_lg.integrations.email.mail import Mailer
from ragflow_lg.services.databases import DatabaseAccount
from tests.fakes.databases import SHOP, execute, new_database, open_databases
from tests.fakes.recordings import record, replay
from tests.fakes.regions import node, out
from tests.fakes.services import fake_services
from tests.fakes.smtp_server import PASSWORD, USER, smtp_server
from tests.integrations.email.test_email import account, mailer


async def test_a_replay_does_not_query(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    query = node("ExeSQL", {"connection": "reader", "sql": "SELECT name FROM goods WHERE id = 1; nothing"}, ["out"])
    components = {"a": query, **out("{a@formalized_content}")}
    with new_database("sqlite", tmp_path) as shop:
        execute(shop, SHOP)
        databases = open_databases(shop)
        run, events = await record(file, components, fake_services(databases=databases))
    again, replayed, _ = await replay(file, components)
    assert "tea" in str(run.answer)
    assert (again.answer, replayed) == (run.answer, events)


async def test_a_replay_sends_no_email_and_a_recording_has_no_password(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    async with smtp_server() as server:
        params = {**account(server), "to_email": "ann@example.com", "subject": "s", "content": "c"}
        components = {"a": node("Email", params, ["out"]), **out("{a@success}")}
        run, events = await record(file, components, fake_services(integrations={Mailer: mailer(server)}))
        again, replayed, _ = await replay(file, components)
        assert (run.error, len(server.received)) == (None, 1)
    assert (run.status, again.answer, replayed) == ("succeeded", run.answer, events)
    text = file.read_text("utf-8")
    assert PASSWORD not in text
    assert USER in text


async def test_errors_are_replayed_and_accounts_are_named_without_passwords(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    fields = {"host": "10.0.0.1", "database": "d", "username": "u", "password": "a-secret-word-1"}
    components = {"a": node("ExeSQL", {**fields, "sql": "SELECT 1"}, ["out"]), **out("x")}
    run, events = await record(
        file, components, fake_services(databases=open_databases(DatabaseAccount("mysql", "", 0, "", "")))
    )
    again, replayed, _ = await replay(file, components)
    assert run.status == again.status == "failed"
    assert replayed == events
    text = file.read_text("utf-8")
    assert "a-secret-word-1" not in text
    assert '"host": "10.0.0.1", "port": 3306, "database": "d", "username": "u", "password": "***"' in text
