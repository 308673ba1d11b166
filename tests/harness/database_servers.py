"""PostgreSQL and MariaDB for as long as tests need them, each started by an ordinary user on a free port.

Looked for on the path, where Debian puts them, and in ``.cache/databases``, to which ``python -m
tests.harness.database_servers`` unpacks Debian's packages: that needs no rights, and installs no service. Root's
PostgreSQL is run by the user ``nobody``, as it refuses to be root's.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

__all__ = ["NotInstalledError", "find", "prepare", "server"]

CACHE = Path(__file__).parents[2] / ".cache" / "databases"
PROGRAMS = {"postgresql": ("initdb", "postgres"), "mariadb": ("mariadbd", "mariadbd")}
SYSTEM_TABLES = ("mysql_system_tables", "mysql_performance_tables", "mysql_system_tables_data")
PACKAGES = {"postgresql": "postgresql", "mariadb": "mariadb-server-core"}
NOBODY = 65534
START_S = 20.0
PASSWORD = "a password with @ and /"
_PR_SET_PDEATHSIG = 1


class NotInstalledError(Exception):
    """There is no such server here."""


def find(kind: str) -> tuple[Path, Path]:
    """Give the programs that set up and run a server.

    Raises:
        NotInstalledError: if they are not there.
    """
    found: list[Path] = []
    for name in PROGRAMS[kind]:
        places = [Path(on_path)] if (on_path := shutil.which(name)) else []
        for root in (Path("/"), CACHE / kind):
            for pattern in ("usr/lib/postgresql/*/bin", "usr/sbin", "usr/bin"):
                places += sorted(root.glob(f"{pattern}/{name}"), reverse=True)
        if not places:
            raise NotInstalledError(f"no {name}: make databases fetches it")
        found.append(places[0].resolve() if kind == "postgresql" else places[0])
    return found[0], found[1]


@contextmanager
def server(kind: str) -> Generator[str]:
    """Give the URL of a server's own database; the server ends with the block, and all that was in it.

    Raises:
        NotInstalledError: if it is not there.
    """
    set_up, run = find(kind)
    with tempfile.TemporaryDirectory(prefix=f"ragflow-lg-{kind}-") as name:
        folder = Path(name)
        if kind == "postgresql" and os.geteuid() == 0:
            os.chown(folder, NOBODY, NOBODY)
        port = _free_port()
        commands = {"postgresql": _postgresql, "mariadb": _mariadb}[kind](set_up, run, folder, port)
        _do(kind, commands[0], folder / "bootstrap.sql")
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(commands[1], stdout=log, stderr=log, **_as(kind), preexec_fn=_end_with_parent)
        try:
            _wait(process, port, folder)
            user = {"postgresql": "postgres", "mariadb": "ragflow"}[kind]
            quoted = PASSWORD.replace("@", "%40").replace("/", "%2F").replace(" ", "%20")
            yield f"{kind}://{user}:{quoted}@127.0.0.1:{port}/{'postgres' if kind == 'postgresql' else 'mysql'}"
        finally:
            process.send_signal(signal.SIGINT if kind == "postgresql" else signal.SIGTERM)
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _postgresql(set_up: Path, run: Path, folder: Path, port: int) -> tuple[list[str], list[str]]:
    secret = folder / "password"
    secret.write_text(PASSWORD)
    secret.chmod(0o644)
    data = str(folder / "data")
    shared = ["-L", str(share)] if (share := _share(set_up)) else []
    first = [str(set_up), "-D", data, "-U", "postgres", "-A", "scram-sha-256", "--pwfile", str(secret), "-N", *shared]
    quick = [f"-c{name}=off" for name in ("fsync", "synchronous_commit", "full_page_writes")]
    return [*first, "-E", "UTF8", "--locale=C"], [
        *(str(run), "-D", data, "-p", str(port), "-k", str(folder), "-h", "127.0.0.1", *quick),
    ]


def _share(set_up: Path) -> Path | None:
    """Give the folder of initdb's templates where it is not where it was built for."""
    shares = list(CACHE.glob("postgresql/usr/share/postgresql/*"))
    return shares[0] if set_up.is_relative_to(CACHE) and shares else None


def _mariadb(set_up: Path, run: Path, folder: Path, port: int) -> tuple[list[str], list[str]]:
    data = str(folder / "data")
    (folder / "init.sql").write_text(
        f"CREATE USER 'ragflow'@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';\n"
        "GRANT ALL ON *.* TO 'ragflow'@'127.0.0.1' WITH GRANT OPTION;\n"
    )
    (folder / "init.sql").chmod(0o644)
    base = CACHE / "mariadb" / "usr" if run.is_relative_to(CACHE) else run.parent.parent
    root = ["--user=root"] if os.geteuid() == 0 else []
    known = ["--no-defaults", f"--basedir={base}", f"--datadir={data}", *root]
    tables = [(base / "share" / "mysql" / f"{name}.sql").read_text("utf-8") for name in SYSTEM_TABLES]
    (folder / "bootstrap.sql").write_text("\n".join(["CREATE DATABASE mysql;", "USE mysql;", *tables]))
    (folder / "data").mkdir()
    first = [str(set_up), *known, "--bootstrap", "--skip-grant-tables", "--innodb-log-file-size=8M"]
    return first, [
        *(str(run), *known, f"--port={port}", "--bind-address=127.0.0.1", f"--socket={folder}/socket"),
        *("--skip-name-resolve", "--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=32M"),
        *(f"--init-file={folder}/init.sql", f"--pid-file={folder}/pid", "--innodb-log-file-size=8M"),
    ]


def _as(kind: str) -> dict[str, Any]:
    """Say as whom a server runs, and where its libraries are."""
    libraries = [str(path) for path in CACHE.glob(f"{kind}/usr/lib/*-linux-gnu")]
    known = {**os.environ, "LD_LIBRARY_PATH": ":".join(libraries)} if libraries else dict(os.environ)
    is_dropped = kind == "postgresql" and os.geteuid() == 0
    user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if is_dropped else {}
    return {"env": {**known, "LC_ALL": "C"}, "cwd": "/", **user}


def _do(kind: str, command: list[str], fed: Path) -> None:
    text = fed.read_text("utf-8") if fed.is_file() else ""
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=60, **_as(kind))
    if done.returncode:
        raise AssertionError(f"{command[0]}: {(done.stderr or done.stdout)[-2000:]}")


def _wait(process: subprocess.Popen[bytes], port: int, folder: Path) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until and process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.02)
    raise AssertionError(f"The server did not start: {(folder / 'log').read_text('utf-8', 'replace')[-2000:]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _end_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def prepare(kind: str) -> str:
    """Unpack a server's packages should there be none; say what was done."""
    with suppress(NotInstalledError):
        return f"{kind}: {find(kind)[1]} is there."
    if not shutil.which("apt-get") or not shutil.which("dpkg"):
        return f"{kind}: is not installed, and there is no apt-get to fetch it; its tests are left out."
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        done = subprocess.run(
            ["apt-get", "download", "-qq", *_packages(PACKAGES[kind])],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        files = sorted(Path(folder).glob("*.deb"))
        if done.returncode or not files:
            told = done.stderr.strip()[-300:]
            return f"{kind}: apt-get cannot fetch it ({told}); apt-get update may help. Its tests are left out."
        (CACHE / kind).mkdir(parents=True, exist_ok=True)
        for file in files:
            unpacked = subprocess.run(["dpkg", "-x", file, CACHE / kind], capture_output=True, text=True, check=False)
            if unpacked.returncode:
                shutil.rmtree(CACHE / kind)
                return f"{kind}: dpkg cannot unpack it ({unpacked.stderr.strip()[-300:]}). Its tests are left out."
    return f"{kind}: unpacked {len(files)} packages to {CACHE / kind}."


def _packages(name: str) -> list[str]:
    """Give a package, what stands for it, and the libraries it needs."""
    listed = subprocess.run(["apt-cache", "depends", name], capture_output=True, text=True, check=False).stdout
    needed = [line.split()[-1] for line in listed.splitlines() if line.strip().startswith("Depends:")]
    versioned = [package for package in needed if package.startswith("postgresql-") and package[-1].isdigit()]
    if versioned:
        return _packages(versioned[0])
    return [name, *(p for p in needed if p.startswith("lib") and not p.startswith(("libc6", "libgcc", "libstdc")))]


if __name__ == "__main__":
    for each in PROGRAMS:
        sys.stdout.write(prepare(each) + "\n")
