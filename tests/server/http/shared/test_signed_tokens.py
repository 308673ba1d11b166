from pathlib import Path

import jwt

from ragflow_lg.server.database.key_repository import KeyRepository
from ragflow_lg.server.http.shared.signed_tokens import KeyOwner, describe_key, issue_token, read_token
from ragflow_lg.server.settings.server_section import UserSection
from tests.server.http.app_server import start_app
from tests.server.http.ragflow_ui.ui_server import start_ui

USERS = {"ada@example.org": UserSection.model_validate({"password": "correct horse"})}
ADA = KeyOwner("default", "user:ada@example.org", email="ada@example.org", name="ada@example.org")


async def test_a_token_is_valid_for_one_purpose_and_as_long_as_its_key(tmp_path: Path) -> None:
    async with start_ui(tmp_path, users=USERS) as server:
        state, keys, now_ms = server.app_state, KeyRepository(server.app_state.database), server.app_state.now_ms()
        row = await keys.find(await keys.create("default", 1, expire_ms=now_ms + 60_000), now_ms)
        page_row = await keys.find(await keys.create("default", 1, kind="beta"), now_ms, "beta")
        assert row is not None
        assert page_row is not None
        for owner in (describe_key(row), ADA):
            session, page = await issue_token(state, owner, "session"), await issue_token(state, owner, "page")
            assert [await read_token(state, each, "session") for each in (session, page)] == [owner, None]
            assert [await read_token(state, each, "page") for each in (session, page)] == [None, owner]
            if owner is not ADA:
                claims = [jwt.decode(each, options={"verify_signature": False}) for each in (session, page)]
                assert [each["exp"] for each in claims] == [row.expire_ms // 1000] * 2
        claims, token = {"aud": "session", "iat": 1}, await issue_token(state, ADA, "session")
        for forged in (
            jwt.encode(claims, "x" * 32, "HS256", headers={"kid": ADA.id}),
            jwt.encode(claims, "", "none", headers={"kid": ADA.id}),
            jwt.encode(claims, "x" * 32, "HS256"),
            jwt.encode(claims, "x" * 32, "HS256", headers={"kid": "nobody"}),
            jwt.encode(claims, page_row.digest, "HS256", headers={"kid": page_row.id}),  # visitors know it
            *(token[:-3] + "AAA", "a.b.c", ""),
        ):
            assert await read_token(state, forged, "session") is None
        assert not await issue_token(state, KeyOwner("t", "nobody"), "session")


async def test_a_changed_password_ends_sessions_and_without_a_front_end_there_are_none(tmp_path: Path) -> None:
    async with start_ui(tmp_path, users=USERS) as server:
        token = await issue_token(server.app_state, ADA, "session")
    changed = {"ada@example.org": UserSection.model_validate({"password": "another horse"})}
    async with start_app(tmp_path, ragflow_ui=tmp_path / "dist", users=changed) as server:
        assert await read_token(server.app_state, token, "session") is None
    async with start_app(tmp_path, users=USERS) as server:
        for each in (token, await issue_token(server.app_state, ADA, "session")):
            assert await read_token(server.app_state, each, "session") is None
