"""Encrypts and decrypts stored data: AES-256-GCM with a key of its own for each session, derived with HKDF-SHA256.

What is encrypted is bound to its *place*, so that it cannot be read at another one: the session, as the domain of the
derived key, and everything else as associated data. The first key of the settings encrypts; all of them decrypt.

LangGraph's `EncryptedSerializer` has one key, does not bind a value to its place, and encrypts neither blobs nor
pending writes of our savers, which are texts already.
"""

from __future__ import annotations

import base64
import binascii
import hmac
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


KEY_ID = r"[A-Za-z0-9_.-]{1,32}"
_MARK = re.compile(rb"!(" + KEY_ID.encode() + rb")!")
"""What stands before encrypted data. Nothing else that a store has of a session begins with ``!``: it is JSON, or
begins with one of `marks`."""


def write_mark(key: str) -> bytes:
    """Return what stands before data that is encrypted with a key."""
    return b"!" + key.encode() + b"!"


def split_mark(stored: bytes) -> tuple[str, bytes]:
    """Return the name of the key and the encrypted data; the name is ``""`` for data that is not encrypted."""
    mark = _MARK.match(stored) if stored[:1] == b"!" else None
    return (mark[1].decode(), stored[mark.end() :]) if mark else ("", stored)


def require_plain(text: str | bytes) -> None:
    """Raise SessionKeyError if a text is encrypted."""
    if text[:1] in ("!", b"!"):
        raise missing_key(split_mark(text[:64].encode() if isinstance(text, str) else text[:64])[0])


def missing_key(key: str) -> SessionKeyError:
    """Return the error for data whose key is not in the settings."""
    return SessionKeyError(
        f"The data is encrypted with the key {key!r}, which is not among the `encryption_keys` of the settings. Add it"
        " there; it need not be the first one."
    )


DERIVED_KEYS = 4096
"""For how many sessions derived keys are kept."""
_NONCE_BYTES = 12
_NAME_BYTES = 16


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
        return write_mark(self.current) + nonce + text

    def decrypt(self, domain: str, place: Sequence[str], stored: bytes) -> bytes:
        """Return decrypted data; what is not encrypted is returned as it is.

        Raises:
            SessionKeyError: if the key is missing or is another one, or the data belongs to another place.
        """
        key, data = split_mark(stored)
        if not key:
            return stored
        if key not in self._secrets:
            raise missing_key(key)
        from cryptography.exceptions import InvalidTag

        try:
            nonce, text = data[:_NONCE_BYTES], data[_NONCE_BYTES:]
            return self._derived(key, domain).cipher.decrypt(nonce, text, orjson.dumps(place))
        except (InvalidTag, ValueError):
            raise SessionKeyError(
                f"Data that was encrypted with the key {key!r} cannot be decrypted: the key of this name has another"
                " value in the settings, or the data has been changed."
            ) from None

    def encrypt_text(self, domain: str, place: Sequence[str], text: str) -> str:
        """Return an encrypted text as ASCII."""
        stored = self.encrypt(domain, place, text.encode("utf-8", "surrogatepass"))
        head = len(write_mark(self.current))
        return stored[:head].decode() + base64.b64encode(stored[head:]).decode()

    def decrypt_text(self, domain: str, place: Sequence[str], stored: str) -> str:
        """Return a decrypted text; one that is not encrypted is returned as it is.

        Raises:
            SessionKeyError: see `decrypt`.
        """
        if stored[:1] != "!":
            return stored
        key, data = split_mark(stored.encode("utf-8", "replace"))
        if not key:
            return stored
        try:
            encrypted = base64.b64decode(data, validate=True)
        except binascii.Error:
            encrypted = b""
        return self.decrypt(domain, place, write_mark(key) + encrypted).decode("utf-8", "surrogatepass")

    def hide_name(self, domain: str, name: str) -> str:
        """Return the name under which a blob is stored: 32 hexadecimal digits that do not show its content."""
        return self._hide(self.current, domain, name)

    def older_names(self, domain: str, name: str) -> list[str]:
        """Return the names under which the blob may be stored since other keys, or none, encrypted."""
        return [*(self._hide(key, domain, name) for key in self._secrets if key != self.current), name]

    def _hide(self, key: str, domain: str, name: str) -> str:
        return hmac.digest(self._derived(key, domain).name_key, name.encode(), "sha256")[:_NAME_BYTES].hex()

    def _derive(self, key: str, domain: str) -> _Derived:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        info = b"ragflow-lg\0" + domain.encode("utf-8", "surrogatepass")
        derived = HKDF(SHA256(), 2 * KEY_BYTES, salt=None, info=info).derive(self._secrets[key])
        return _Derived(AESGCM(derived[:KEY_BYTES]), derived[KEY_BYTES:])
