"""What all tests share: the recorded material, if it is there."""

import gc
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.harness.failure_reports import pytest_runtest_makereport as pytest_runtest_makereport
from tests.harness.loaded_python import loaded_python
from tests.harness.redis_server import redis_server, valkey_server
from tests.harness.shared_databases import shared_databases
from tests.stores import SHARED as SHARED_STORES
from tests.stores import STORES, OpenStore, fresh_prefix, store_opener, store_url

# python -m tests.campaigns properties 1000 tries more values.
settings.register_profile("no deadlines", deadline=None, max_examples=int(os.environ.get("EXAMPLES", "25")))
settings.load_profile("no deadlines")
os.environ.pop("OPENAI_API_KEY", None)  # it would select a real model
os.environ.pop("OPENAI_BASE_URL", None)

# What is imported and collected stays; looking through it took a fifth of the time before the first test.
gc.disable()

SHARED = Path(__file__).parents[2] / "shared"
"""Recorded behaviour and real canvases, beside the checkout; they are not part of it."""

FIXTURES = Path(__file__).parent / "fixtures"

MEMORY = Path("/dev/shm")
"""Where Linux keeps files in memory."""

ROOM_BYTES = 8 * 2**30
"""The files of the tests, most of them those of database servers, take less than half of it."""


def pytest_configure(config: pytest.Config) -> None:
    """Provide what all processes of xdist share, if this is the one that starts them."""
    if not hasattr(config, "workerinput"):
        _keep_files_in_memory()
        stack = ExitStack()
        stack.enter_context(loaded_python())
        stack.enter_context(shared_databases())
        config.add_cleanup(stack.close)


def pytest_collection_finish() -> None:
    """Collect garbage from now on, of what the tests create."""
    gc.freeze()
    gc.enable()


def _keep_files_in_memory() -> None:
    """Create pytest's folders in memory if there is room: creating an SQLite file on a disk takes 40 ms."""
    is_roomy = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= ROOM_BYTES
    if is_roomy and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC:  # tests write programs
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool:
    """Fail a test that takes too long, and again if it goes on: an event loop can give the failure to another task."""

    def fail(*_: object) -> None:
        pytest.fail(f"Timeout (>{settings.timeout} s): {item.nodeid}")

    signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, settings.timeout, 5)
    return True


def pytest_timeout_cancel_timer() -> bool:
    """End the timer of a test."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    return True


@pytest.fixture(autouse=True, scope="session")
def _own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:  # pyright: ignore[reportUnusedFunction] - pytest uses it
    """Keep the lists of folders that the tests trust away from the user's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(autouse=True, scope="session")
def _one_tls_context() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction] - pytest uses it
    """Load the certificates for all HTTP clients of a process once: it takes 30 ms, and a test has several clients."""
    import httpx
    from httpx._transports import default

    create, shared = httpx.create_ssl_context, httpx.create_ssl_context()

    def find(*, verify: Any = True, cert: Any = None, trust_env: bool = True) -> Any:
        is_usual = verify is True and cert is None and not {"SSL_CERT_FILE", "SSL_CERT_DIR"} & os.environ.keys()
        return shared if is_usual else create(verify=verify, cert=cert, trust_env=trust_env)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(default, "create_ssl_context", find)
        yield


@pytest.fixture
def shared_corpus() -> Path:
    folder = SHARED / "corpus"
    if not folder.is_dir():
        pytest.skip("the folder ../shared/corpus is not there")
    return folder


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """A Redis server with JSON and search. Without one the tests fail: setting up has provided it."""
    with redis_server() as url:
        yield url


@pytest.fixture(scope="session")
def valkey_url() -> Iterator[str]:
    """A Valkey, or a Redis without modules."""
    with valkey_server() as url:
        yield url


@pytest.fixture(params=STORES)
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    """Open a session store of each kind, the same one each time."""
    return store_opener(store_url(request, tmp_path), fresh_prefix())


@pytest.fixture(params=SHARED_STORES)
def shared_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a store that processes can share."""
    return store_url(request, tmp_path)


@pytest.fixture
def reopen_shared(shared_url: str) -> OpenStore:
    """Open a session store that processes can share."""
    return store_opener(shared_url, fresh_prefix())
