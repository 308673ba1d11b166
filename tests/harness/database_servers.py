"""PostgreSQL and MariaDB servers for tests, each started by an ordinary user on a free port.

They are searched on the path, where Debian installs them, and in ``.cache/databases``, where ``python -m
tests.harness.database_servers`` unpacks Debian's packages: that needs no privileges and installs no service. Run by
root, PostgreSQL is started as the user ``nobody``, because it refuses to run as root.
"""

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

CACHE = Path(__file__).parents[2] / ".cache" / "databases"
PROGRAMS = {"postgresql": ("initdb", "postgres"), "mariadb": ("mariadbd", "mariadbd")}
SYSTEM_TABLES = ("mysql_system_tables", "mysql_performance_tables", "mysql_system_tables_data")
PACKAGES = {"postgresql": "postgresql", "mariadb": "mariadb-server-core"}
NOBODY = 65534
START_S = 20.0
PASSWORD = "a password with @ and /"
_PR_SET_PDEATHSIG = 1


class NotInstalledError(Exception):
    """The server is not installed."""


def find(kind: str) -> tuple[Path, Path]:
    """Return the programs that set up and run a server.

    Raises:
        NotInstalledError: If they are not installed.
    """
    programs: list[Path] = []
    for name in PROGRAMS[kind]:
        paths = [Path(on_path)] if (on_path := shutil.which(name)) else []
        for root in (Path("/"), CACHE / kind):
            for pattern in ("usr/lib/postgresql/*/bin", "usr/sbin", "usr/bin"):
                paths += sorted(root.glob(f"{pattern}/{name}"), reverse=True)
        if not paths:
            raise NotInstalledError(f"{name} is missing: install it by `make services`")
        programs.append(paths[0].resolve() if kind == "postgresql" else paths[0])
    return programs[0], programs[1]


def run_beside(kind: str, name: str, *arguments: str | Path) -> None:
    """Run a program that is installed beside a server's, such as ``pg_dump``.

    Raises:
        NotInstalledError: If it is not installed.
    """
    program, environment = find(kind)[1].with_name(name), _process_options(kind)["env"]
    if not program.exists():
        raise NotInstalledError(f"{program} is missing: install it by `make services`")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise AssertionError(f"{name}: {done.stderr[-2000:]}")


@contextmanager
def server(kind: str, options: Sequence[str] = ()) -> Generator[str]:
    """Yield the URL of a new server's own database; the server and its data are removed at the end.

    The ``options`` come after those of all tests' servers.

    Raises:
        NotInstalledError: If it is not installed.
    """
    set_up, run = find(kind)
    parent = os.environ.get("PYTEST_DEBUG_TEMPROOT")
    with tempfile.TemporaryDirectory(prefix=f"ragflow-lg-{kind}-", dir=parent) as name:
        folder = Path(name)
        if kind == "postgresql" and os.geteuid() == 0:
            os.chown(folder, NOBODY, NOBODY)
        port = free_port()
        commands = {"postgresql": _postgresql, "mariadb": _mariadb}[kind](set_up, run, folder, port)
        _execute(kind, commands[0], folder / "bootstrap.sql")
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [*commands[1], *options], stdout=log, stderr=log, **_process_options(kind), preexec_fn=_end_with_parent
            )
        try:
            _wait(process, port, folder, _READY[kind])
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
    unsafe = [f"-c{name}=off" for name in ("fsync", "synchronous_commit", "full_page_writes")]
    return [*first, "-E", "UTF8", "--locale=C"], [
        *(str(run), "-D", data, "-p", str(port), "-k", str(folder), "-h", "127.0.0.1", *unsafe)
    ]


def _share(set_up: Path) -> Path | None:
    """Return the folder of initdb's templates if initdb was unpacked elsewhere than it was built for."""
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
    options = ["--no-defaults", f"--basedir={base}", f"--datadir={data}", *root]
    tables = [(base / "share" / "mysql" / f"{name}.sql").read_text("utf-8") for name in SYSTEM_TABLES]
    (folder / "bootstrap.sql").write_text("\n".join(["CREATE DATABASE mysql;", "USE mysql;", *tables]))
    (folder / "data").mkdir()
    first = [str(set_up), *options, "--bootstrap", "--skip-grant-tables", "--innodb-log-file-size=8M"]
    return first, [
        *(str(run), *options, f"--port={port}", "--bind-address=127.0.0.1", f"--socket={folder}/socket"),
        *("--skip-name-resolve", "--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=32M"),
        *(f"--init-file={folder}/init.sql", f"--pid-file={folder}/pid", "--innodb-log-file-size=8M"),
    ]


def _process_options(kind: str) -> dict[str, Any]:
    """Return the options of `subprocess` for the server's user and library path."""
    libraries = [str(path) for path in CACHE.glob(f"{kind}/usr/lib/*-linux-gnu")]
    environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(libraries)} if libraries else dict(os.environ)
    drops_root = kind == "postgresql" and os.geteuid() == 0
    user: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if drops_root else {}
    return {"env": {**environment, "LC_ALL": "C"}, "cwd": "/", **user}


def _execute(kind: str, command: list[str], stdin: Path) -> None:
    text = stdin.read_text("utf-8") if stdin.is_file() else ""
    result = subprocess.run(
        command, input=text, capture_output=True, text=True, check=False, timeout=60, **_process_options(kind)
    )
    if result.returncode:
        raise AssertionError(f"{command[0]}: {(result.stderr or result.stdout)[-2000:]}")


_READY = {"postgresql": b"ready to accept connections", "mariadb": b""}
"""What a server logs when it accepts users; PostgreSQL opens its port earlier."""


def _wait(process: subprocess.Popen[Any], port: int, folder: Path, ready: bytes) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until and process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            if ready in (folder / "log").read_bytes():
                return
        time.sleep(0.02)
    raise AssertionError(f"The server did not start: {(folder / 'log').read_text('utf-8', 'replace')[-2000:]}")


def free_port() -> int:
    """Return a port that is currently free."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _end_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def prepare(kind: str) -> str:
    """Unpack a server's packages if it is not installed; return what was done."""
    with suppress(NotInstalledError):
        return f"{kind}: found {find(kind)[1]}."
    if not shutil.which("apt-get") or not shutil.which("dpkg"):
        return f"{kind}: not installed, and apt-get is missing to fetch it; its tests are skipped."
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        download = subprocess.run(
            ["apt-get", "download", "-qq", *_packages(PACKAGES[kind])],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        files = sorted(Path(folder).glob("*.deb"))
        if download.returncode or not files:
            reason = download.stderr.strip()[-300:]
            return f"{kind}: apt-get cannot fetch it ({reason}); try apt-get update. Its tests are skipped."
        (CACHE / kind).mkdir(parents=True, exist_ok=True)
        for file in files:
            unpacking = subprocess.run(["dpkg", "-x", file, CACHE / kind], capture_output=True, text=True, check=False)
            if unpacking.returncode:
                shutil.rmtree(CACHE / kind)
                return f"{kind}: dpkg cannot unpack it ({unpacking.stderr.strip()[-300:]}). Its tests are skipped."
    return f"{kind}: unpacked {len(files)} packages to {CACHE / kind}."


def _packages(name: str) -> list[str]:
    """Return a package, the one it stands for, and the libraries it needs."""
    output = subprocess.run(["apt-cache", "depends", name], capture_output=True, text=True, check=False).stdout
    needed = [line.split()[-1] for line in output.splitlines() if line.strip().startswith("Depends:")]
    versioned = [package for package in needed if package.startswith("postgresql-") and package[-1].isdigit()]
    if versioned:
        return _packages(versioned[0])
    wanted = [package for package in needed if package.startswith(("lib", "postgresql-client-"))]
    return [name, *(package for package in wanted if not package.startswith(("libc6", "libgcc", "libstdc")))]


if __name__ == "__main__":
    for each in PROGRAMS:
        sys.stdout.write(prepare(each) + "\n")
