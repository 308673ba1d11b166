from pathlib import Path

import jwt

from ragflow_lg.server.database.key_repository import KeyRepository
from ragflow_lg.server.http.shared.signed_tokens import KeyOwner, describe_key, issue_token, read_token
from ragflow_lg.server.settings.server_section import UserSection
from tests.server.http.app_server import AppServer, start_app
from tests.server.http.ragflow_ui.ui_server import start_ui

USERS = {"ada@example.org": UserSection.model_validate({"password": "correct horse"})}
ADA = KeyOwner("default", "user:ada@example.org", email="ada@example.org", name="ada@example.org")


async def owner_of_key(server: AppServer) -> KeyOwner:
    row = await KeyRepository(server.app_state.database).find(server.key, 1)
    assert row is not None
    return describe_key(row)


async def test_a_token_is_valid_for_one_purpose_only(tmp_path: Path) -> None:
    async with start_ui(tmp_path, users=USERS) as server:
        for owner in (await owner_of_key(server), ADA):
            session = await issue_token(server.app_state, owner, "session")
            page = await issue_token(server.app_state, owner, "page")
            assert await read_token(server.app_state, session, "session") == owner
            assert await read_token(server.app_state, page, "page") == owner
            assert await read_token(server.app_state, session, "page") is None
            assert await read_token(server.app_state, page, "session") is None


async def test_forged_and_expired_tokens_are_refused(tmp_path: Path) -> None:
    async with start_ui(tmp_path, users=USERS) as server:
        token = await issue_token(server.app_state, ADA, "session")
        headers = {"kid": ADA.id}
        forged = [
            jwt.encode({"aud": "session", "iat": 1}, "x" * 32, "HS256", headers=headers),
            jwt.encode({"aud": "session", "iat": 1}, "", "none", headers=headers),
            jwt.encode({"aud": "session", "iat": 1}, "x" * 32, "HS256"),
            jwt.encode({"aud": "session", "iat": 1}, "x" * 32, "HS256", headers={"kid": "nobody"}),
            token[:-3] + "AAA",
            "a.b.c",
            "",
        ]
        for each in forged:
            assert await read_token(server.app_state, each, "session") is None
        assert not await issue_token(server.app_state, KeyOwner("t", "nobody"), "session")


async def test_a_changed_password_ends_sessions(tmp_path: Path) -> None:
    async with start_ui(tmp_path, users=USERS) as server:
        token = await issue_token(server.app_state, ADA, "session")
    changed = {"ada@example.org": UserSection.model_validate({"password": "another horse"})}
    async with start_app(tmp_path, ragflow_ui=tmp_path / "dist", users=changed) as server:
        assert await read_token(server.app_state, token, "session") is None


async def test_without_a_front_end_there_are_no_sessions(tmp_path: Path) -> None:
    async with start_app(tmp_path, users=USERS) as server:
        token = await issue_token(server.app_state, ADA, "session")
        assert await read_token(server.app_state, token, "session") is None


async def test_a_token_expires_with_its_key(tmp_path: Path) -> None:
    async with start_ui(tmp_path, users=USERS) as server:
        keys, now_ms = KeyRepository(server.app_state.database), server.app_state.now_ms()
        row = await keys.find(await keys.create("default", 1, expire_ms=now_ms + 60_000), now_ms)
        assert row is not None
        for token in (
            await issue_token(server.app_state, describe_key(row), "page"),
            await issue_token(server.app_state, describe_key(row), "session"),
        ):
            claims = jwt.decode(token, options={"verify_signature": False})
            assert claims["exp"] == row.expire_ms // 1000


async def test_the_public_key_of_a_page_signs_no_session(tmp_path: Path) -> None:
    async with start_ui(tmp_path, users=USERS) as server:
        keys, now_ms = KeyRepository(server.app_state.database), server.app_state.now_ms()
        row = await keys.find(await keys.create("default", 1, kind="beta"), now_ms, "beta")
        assert row is not None
        forged = jwt.encode({"aud": "session", "iat": 1}, row.digest, "HS256", headers={"kid": row.id})
        assert await read_token(server.app_state, forged, "session") is None
