"""What all tests share: the recorded material, if it is there."""

import asyncio
import functools
import gc
import os
import shutil
import ssl
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import uvicorn.server
from hypothesis import settings
from hypothesis.internal.conjecture import providers

from tests.harness.failure_reports import pytest_runtest_makereport as pytest_runtest_makereport
from tests.harness.loaded_python import loaded_python
from tests.harness.redis_server import redis_server
from tests.harness.shared_databases import shared_databases
from tests.stores import OpenStore, fresh_prefix, store_opener

# make properties EXAMPLES=1000 tries more values.
settings.register_profile("no deadlines", deadline=None, max_examples=int(os.environ.get("EXAMPLES", "25")))
settings.load_profile("no deadlines")
if "EXAMPLES" not in os.environ:
    # Hypothesis would look for constants in all modules of the project, in each process and after each import.
    _providers: Any = providers
    _providers._get_local_constants = lambda: _providers._local_constants

os.environ.pop("OPENAI_API_KEY", None)  # it would select a real model
os.environ.pop("OPENAI_BASE_URL", None)

# Loading the certificates takes longer than most tests, and they open thousands of clients that never use them.
ssl.create_default_context = functools.lru_cache(ssl.create_default_context)


async def _sleep_less(delay: float) -> None:
    await asyncio.sleep(delay / 10)


# Uvicorn looks every 0.1 s whether it has to stop, and whether its connections have ended. Most tests of a server are
# shorter than these pauses.
_uvicorn: Any = uvicorn.server
_uvicorn.asyncio = SimpleNamespace(**{**vars(asyncio), "sleep": _sleep_less})

# A forked process ends without storing what coverage has measured in it: measuring only makes it slow.
os.register_at_fork(after_in_child=lambda: sys.settrace(None))

SHARED = Path(__file__).parents[2] / "shared"
"""Recorded behaviour and real canvases, beside the checkout; they are not part of it."""

FIXTURES = Path(__file__).parent / "fixtures"

MEMORY = Path("/dev/shm")
"""Where Linux keeps files in memory."""

ROOM_BYTES = 8 * 2**30
"""The files of the tests, most of them those of database servers, take less than half of it."""


def pytest_configure(config: pytest.Config) -> None:
    """Provide what all processes of xdist share, if this is the one that starts them."""
    gc.disable()
    if not hasattr(config, "workerinput"):
        _keep_files_in_memory()
        stack = ExitStack()
        stack.enter_context(loaded_python())
        stack.enter_context(shared_databases())
        config.add_cleanup(stack.close)


def _keep_files_in_memory() -> None:
    """Create pytest's folders in memory if there is room: creating an SQLite file on a disk takes 40 ms."""
    is_roomy = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= ROOM_BYTES
    if is_roomy and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC:  # tests write programs
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let half of the processes of xdist begin with the slow tests.

    Each process begins with an equal part of the list, and at the end takes tests from the others. A slow test that
    begins late would keep one process busy while the others wait. Slow tests wait for servers most of the time, so the
    other processes have enough to compute meanwhile. Slow tests of one file stay together.
    """
    count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    slow: dict[Path, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("slow"):
            slow.setdefault(item.path, []).append(item)
    files = sorted(slow.values(), key=len, reverse=True)
    others = iter([item for item in items if not item.get_closest_marker("slow")])
    parts: list[pytest.Item] = []
    half = (count + 1) // 2
    for number in range(count):
        if number < half:
            parts += [item for file in files[number::half] for item in file]
        parts += islice(others, max(0, len(items) * (number + 1) // count - len(parts)))
    items[:] = parts


def pytest_collection_finish() -> None:
    """Spare the garbage collector what stays until the end: the modules and the tests themselves.

    With Python's own thresholds, it takes a twentieth of the time of the tests.
    """
    gc.freeze()
    gc.set_threshold(5_000, 20, 10)
    gc.enable()


@pytest.fixture(autouse=True, scope="session")
def _own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:  # pyright: ignore[reportUnusedFunction] - pytest uses it
    """Keep the lists of folders that the tests trust away from the user's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
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


@pytest.fixture(params=["memory", "sqlite", "redis"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    """Open a session store of each kind, the same one each time."""
    if request.param == "redis":
        return store_opener(request.getfixturevalue("redis_url"), fresh_prefix())
    return store_opener("memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/sessions.db")


@pytest.fixture(params=["sqlite", "redis"])
def reopen_shared(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    """Open a session store that processes can share."""
    if request.param == "redis":
        return store_opener(request.getfixturevalue("redis_url"), fresh_prefix())
    return store_opener(f"sqlite:///{tmp_path}/sessions.db")
