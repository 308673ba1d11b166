"""Signed tokens that stand for an API key or a user of the settings: after a sign-in, and in embedded pages.

Nothing is stored. A token is a JSON Web Token whose secret belongs to its owner, so it becomes invalid when the key is
revoked, or when the user's password changes.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from ragflow_lg.server.database.key_repository import KeyRepository

if TYPE_CHECKING:
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.database.tables import KeyRow

Purpose: TypeAlias = Literal["session", "page"]
"""``session``: a signed-in person; ``page``: a page that anybody can open, as with a beta key."""

_ALGORITHM = "HS256"
_MAX_CHARS = 2048
SIGN_IN_S = 7 * 24 * 3600
"""How long people stay signed in."""
_VISITOR_BYTES = 16
"""Bytes of a visitor's random number, and of its signature."""


class KeyOwner(NamedTuple):
    """The owner of an API key or a token."""

    tenant: str
    id: str
    """Id of the key, or ``user:`` and the e-mail address."""
    compat: str = ""
    email: str = ""
    """Only for users of the settings."""
    name: str = ""
    """Name of the key or of the user."""
    agents: tuple[str, ...] = ()
    """The agents that a beta key opens; empty for all of the tenant."""
    expire_ms: int = 0
    """When the key becomes invalid; 0 for never."""


def describe_key(row: KeyRow) -> KeyOwner:
    """Return the owner of an API key."""
    agents = tuple(row.agents.split(",")) if row.agents else ()
    return KeyOwner(row.tenant, row.id, row.compat, name=row.name, agents=agents, expire_ms=row.expire_ms)


async def check_password(app_state: AppState, email: str, password: str) -> KeyOwner | None:
    """Return the user with this e-mail address and password, or the owner of the API key given as the password."""
    if user := _find_user(app_state, email):
        owner, expected = user
        if hmac.compare_digest(password.encode("utf-8", "replace"), expected.encode("utf-8", "replace")):
            return owner
    row = await KeyRepository(app_state.database).find(password, app_state.now_ms()) if password else None
    return describe_key(row) if row is not None else None


async def issue_token(app_state: AppState, owner: KeyOwner, purpose: Purpose) -> str:
    """Return a token for an owner. That of a session expires; no token is valid longer than its owner."""
    found = await _load(app_state, owner.id)
    if found is None:
        return ""
    now_s = app_state.now_ms() // 1000
    claims: dict[str, Any] = {"aud": purpose, "iat": now_s}
    if purpose == "session":
        claims["exp"] = now_s + SIGN_IN_S
    if expire_ms := found[0].expire_ms:
        claims["exp"] = min(claims.get("exp", expire_ms // 1000), expire_ms // 1000)
    import jwt  # it loads the package cryptography, which no other request needs

    return jwt.encode(claims, found[1], _ALGORITHM, headers={"kid": owner.id})


async def read_token(app_state: AppState, token: str, purpose: Purpose) -> KeyOwner | None:
    """Return the owner of a valid token, or None."""
    if app_state.settings.server.ragflow_ui is None or token.count(".") != 2 or len(token) > _MAX_CHARS:
        return None
    import jwt

    try:
        owner_id: Any = jwt.get_unverified_header(token).get("kid")
        # The key of a page is public, so that anyone could sign with its digest.
        kind = "api" if purpose == "session" else ""
        found = await _load(app_state, owner_id, kind) if isinstance(owner_id, str) else None
        if found is None:
            return None
        jwt.decode(token, found[1], [_ALGORITHM], audience=purpose, options={"require": ["aud", "iat"]})
    except jwt.PyJWTError:
        return None
    return found[0]


async def make_visitor_secret(app_state: AppState, owner: KeyOwner) -> str:
    """Return a new secret for a visitor of the page with a key or token: random bytes and their signature."""
    return await _sign_visitor(app_state, owner, secrets.token_bytes(_VISITOR_BYTES))


async def is_visitor_secret(app_state: AppState, owner: KeyOwner, secret: str) -> bool:
    """Return whether `make_visitor_secret` has made a secret, which has 43 characters of base64."""
    random = urlsafe_b64decode(f"{secret}=")[:_VISITOR_BYTES]
    return hmac.compare_digest(await _sign_visitor(app_state, owner, random), secret)


async def _sign_visitor(app_state: AppState, owner: KeyOwner, random: bytes) -> str:
    """Return random bytes with their signature.

    Visitors can read the key of their page and compute its digest, but not its id, which the server made.
    """
    found = await _load(app_state, owner.id)
    signer = f"visitor\0{owner.id}\0{found[1]}" if found else secrets.token_hex()
    signature = hmac.digest(signer.encode("utf-8", "replace"), random, "sha256")[:_VISITOR_BYTES]
    return urlsafe_b64encode(random + signature).rstrip(b"=").decode()


async def _load(app_state: AppState, owner_id: str, kind: str = "") -> tuple[KeyOwner, str] | None:
    """Return an owner and the secret that signs its tokens, if it is a user or has a key of a kind."""
    if owner_id.startswith("user:"):
        user = _find_user(app_state, owner_id.removeprefix("user:"))
        return (user[0], _derive_secret(*user)) if user else None
    row = await KeyRepository(app_state.database).get(owner_id, app_state.now_ms())
    return (describe_key(row), row.digest) if row is not None and kind in ("", row.kind) else None


def _find_user(app_state: AppState, email: str) -> tuple[KeyOwner, str] | None:
    """Return a user of the settings and the password, if there is such a user with a password."""
    wanted = email.strip().casefold()
    for address, user in app_state.settings.server.users.items():
        if address.casefold() == wanted and (password := user.password.read()):
            return KeyOwner(user.tenant, f"user:{address}", email=address, name=address), password
    return None


@lru_cache(maxsize=64)
def _derive_secret(owner: KeyOwner, password: str) -> str:
    """Return a secret from which the password cannot be guessed quickly."""
    salt = owner.id.encode("utf-8", "replace")
    return hashlib.scrypt(password.encode("utf-8", "replace"), salt=salt, n=2**14, r=8, p=1).hex()
