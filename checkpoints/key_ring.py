"""Encrypts and decrypts stored data: AES-256-GCM with a key of its own for each session, derived with HKDF-SHA256.

What is encrypted is bound to its *place*, so that it cannot be read at another one: the session, as the domain of the
derived key, and everything else as associated data. The first key of the settings encrypts; all of them decrypt.

LangGraph's `EncryptedSerializer` has one key, and does not bind a value to its place.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import orjson

from ragflow_lg.base.errors import CheckpointError, SessionKeyError
from ragflow_lg.base.extras import require
from ragflow_lg.services.encryption import KEY_BYTES

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    from ragflow_lg.services.encryption import EncryptionKey


_MARK = re.compile(rb"!([A-Za-z0-9_.-]{1,32})!")
"""What stands before encrypted data, with the name of the key.

Nothing else that is stored begins with ``!``: it is JSON or a part of it."""


def is_encrypted(stored: bytes) -> bool:
    """Return whether stored data is encrypted."""
    return stored[:1] == b"!"


def require_plain(text: str | bytes) -> None:
    """Raise SessionKeyError if a text is encrypted."""
    stored = text[:64].encode() if isinstance(text, str) else text
    if is_encrypted(stored):
        raise missing_key(stored)


def missing_key(stored: bytes) -> SessionKeyError:
    """Return the error for data whose key is not in the settings."""
    mark = _MARK.match(stored)
    return SessionKeyError(
        f"The data is encrypted with the key {mark[1].decode() if mark else ''!r}, which is not among the"
        " `encryption_keys` of the settings. Add it there; it need not be the first one."
    )


DERIVED_KEYS = 4096
"""For how many sessions derived keys are kept."""
_NONCE_BYTES = 12


def make_key_ring(keys: Sequence[EncryptionKey]) -> KeyRing | None:
    """Return the keys as a ring, or None if there are none.

    Raises:
        CheckpointError: if the package that encrypts is not installed.
    """
    return KeyRing(keys) if keys else None


def run_domain(run_id: str) -> str:
    """Return the domain of what is stored for a run alone. That of a session is the id of its thread."""
    return orjson.dumps(["run", run_id]).decode()


class _Derived(NamedTuple):
    """What is derived from a key for a domain."""

    cipher: AESGCM
    name_key: bytes
    """For the names of blobs, which must not show the hash of their content."""


class KeyRing:
    """The keys of a deployment. Its methods may be called in any thread."""

    def __init__(self, keys: Sequence[EncryptionKey]) -> None:
        """``keys`` are the keys, of which the first one encrypts.

        Raises:
            CheckpointError: if the package that encrypts is not installed.
        """
        require("encryption", "Encryption", CheckpointError)
        self._secrets = {key.id: key.secret for key in keys}
        self.current = keys[0].id
        """The name of the key that encrypts."""
        self._derived: Callable[[str, str], _Derived] = lru_cache(DERIVED_KEYS)(self._derive)

    def encrypt(self, domain: str, place: Sequence[str], data: bytes) -> bytes:
        """Return encrypted data."""
        nonce = os.urandom(_NONCE_BYTES)
        text = self._derived(self.current, domain).cipher.encrypt(nonce, data, orjson.dumps(place))
        return self._mark() + nonce + text

    def decrypt(self, domain: str, place: Sequence[str], stored: bytes) -> bytes:
        """Return decrypted data; what is not encrypted is returned as it is.

        Raises:
            SessionKeyError: if the key is missing or is another one, or the data belongs to another place.
        """
        if not is_encrypted(stored) or (mark := _MARK.match(stored)) is None:
            return stored
        key, data = mark[1].decode(), stored[mark.end() :]
        if key not in self._secrets:
            raise missing_key(stored)
        from cryptography.exceptions import InvalidTag

        try:
            nonce, text = data[:_NONCE_BYTES], data[_NONCE_BYTES:]
            return self._derived(key, domain).cipher.decrypt(nonce, text, orjson.dumps(place))
        except (InvalidTag, ValueError):
            raise SessionKeyError(
                f"Data that was encrypted with the key {key!r} cannot be decrypted: the key of this name has another"
                " value in the settings, or the data has been changed."
            ) from None

    def _mark(self) -> bytes:
        return b"!" + self.current.encode() + b"!"

    def encrypt_text(self, domain: str, place: Sequence[str], text: str) -> str:
        """Return an encrypted text as ASCII."""
        stored, head = self.encrypt(domain, place, text.encode("utf-8", "surrogatepass")), len(self._mark())
        return stored[:head].decode() + base64.b64encode(stored[head:]).decode()

    def decrypt_text(self, domain: str, place: Sequence[str], stored: str) -> str:
        """Return a decrypted text; one that is not encrypted is returned as it is.

        Raises:
            SessionKeyError: see `decrypt`.
        """
        mark = _MARK.match(stored.encode("utf-8", "replace"))
        if mark is None:
            return stored
        try:
            encrypted = base64.b64decode(stored[mark.end() :], validate=True)
        except ValueError:
            encrypted = b""
        return self.decrypt(domain, place, mark[0] + encrypted).decode("utf-8", "surrogatepass")

    def digest(self, domain: str, text: bytes, key: str = "") -> str:
        """Return the name of a blob: 32 hexadecimal digits that show its content only to those who have the key."""
        name_key = self._derived(key or self.current, domain).name_key
        return hashlib.blake2b(text, key=name_key, digest_size=16).hexdigest()

    def digests(self, domain: str, text: bytes) -> list[str]:
        """Return the `digest` with each key, the current one first."""
        return [self.digest(domain, text, key) for key in self._secrets]

    def _derive(self, key: str, domain: str) -> _Derived:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        info = b"ragflow-lg\0" + domain.encode("utf-8", "surrogatepass")
        derived = HKDF(SHA256(), 2 * KEY_BYTES, salt=None, info=info).derive(self._secrets[key])
        return _Derived(AESGCM(derived[:KEY_BYTES]), derived[KEY_BYTES:])
