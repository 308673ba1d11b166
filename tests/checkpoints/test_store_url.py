from pathlib import Path

import pytest

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints.store_url import redact_url, sqlite_path, store_kind
from tests.harness.rows import each_row


@each_row(
    ("url", "kind"),
    [
        ("memory://", "memory"), ("sqlite:///a.db", "sqlite"), ("sqlite:////tmp/a.db", "sqlite"),
        ("redis://h", "redis"),
        ("rediss://h:1/2", "redis"), ("redis+sentinel://h/s", "redis"),
    ],
)  # fmt: skip
def test_the_scheme_determines_the_kind(url: str, kind: str) -> None:
    assert store_kind(url) == kind


def test_a_path_is_absolute_after_a_fourth_slash() -> None:
    assert (sqlite_path("sqlite:///a.db"), sqlite_path("sqlite:////b/a.db")) == (Path("a.db"), Path("/b/a.db"))


@each_row(
    ("url", "hint"),
    [
        ("", "redis+sentinel://HOST:PORT/SERVICE"), ("memory", "memory://, sqlite:///PATH"),
        ("memory://x", "nothing after it"),
        ("sqlite://a.db", "three slashes, sqlite:///a.db"), ("sqlite:///", "has no file name; write sqlite:///PATH"),
        ("sqlite://", "has no file name"), ("sqlite:", "use memory://"), ("redis://", "has no host"),
        ("redis+cluster://", "has no host"), ("://", "rediss://"),
    ],
)  # fmt: skip
def test_an_invalid_url_is_rejected_with_a_correction(url: str, hint: str) -> None:
    with pytest.raises(CheckpointError, match="Invalid session store URL") as error:
        store_kind(url)
    assert hint in str(error.value)


def test_a_password_is_hidden() -> None:
    with pytest.raises(CheckpointError) as error:
        store_kind("postgres://me:secret@host")
    assert "secret" not in str(error.value)
    for url in ("me:secret@a:1,b:2/s", "a:1,b:2/s?password=secret", "me:secret@a:1,b:2/s?password=secret"):
        assert redact_url(f"redis+sentinel://{url}") == "redis+sentinel://a:1,b:2/s"
    for url in ("host?password=sec@ret", "me:sec?ret@host"):
        assert redact_url(f"postgresql://{url}") == "postgresql://..."
