"""Hostile programs in Bubblewrap: what they try must fail, and the limit must be named."""

import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.base.errors import CodeLimitError, ServiceError
from tests.harness.rows import each_row, read_rows
from tests.integrations.code.sandboxes import MEBIBYTE, Run, probe

pytestmark = pytest.mark.slow

SECRET = "a-secret-of-the-host"


def test_a_fork_bomb_ends(run: Run) -> None:
    code = "import os\ndef main():\n    while True:\n        os.fork()"
    with pytest.raises(ServiceError) as caught:
        run(code)
    error = caught.value  # what the children write may also look like a damaged report
    assert getattr(error, "limit", "") in ("processes", "cpu_s", "memory_bytes") or "damaged the report" in str(error)


FORKS = """
import os, time
def main():
    for _ in range(12):
        if os.fork() == 0:
            block = bytearray(60 * 2**20)
            time.sleep(9)
    time.sleep(9)"""
THREADS = """
import threading, time
def main():
    for _ in range(500): threading.Thread(target=time.sleep, args=(9,)).start()"""
GROW = "function main() {{ const a = []; while (true) a.push({}); }}"
WAIT = "async function main() { await new Promise((done) => setTimeout(done, 60000)); }"
WRITE = "const fs = require('fs'); function main() { while (true) fs.writeSync(1, 'x'.repeat(999)); }"
LARGE_FILE = "def main():\n    with open('x', 'wb') as f:\n        while True: f.write(b'x' * 10**6)"
FILL = "def main():\n    for i in range(10**6):\n        with open(f'/tmp/x{i}', 'wb') as f: f.write(b'x' * 10**6)"
FILES = "def main():\n    for i in range(100000): open(f'x{i}', 'wb').close()\n    import time; time.sleep(1)"
MANY = "def main():\n    for i in range(11): open(f'artifacts/{i}.csv', 'w').close()\n    return 1"
LARGE = "def main():\n    open('artifacts/a.csv', 'w').write('x' * 2000)\n    return 1"
MADE = "import os\ndef main():\n    {}\n    return 1"
PATIENT: dict[str, Any] = {"memory_bytes": 1024 * MEBIBYTE, "cpu_s": 60, "timeout_s": 60.0}
ATTACKS: list[tuple[str, str, str, dict[str, Any]]] = [
    ("processes", "python", THREADS, {}),
    ("memory_bytes", "python", "def main(): return len(bytearray(2 * 10**9))", {"cpu_s": 8}),
    ("memory_bytes", "python", "def main():\n    a = []\n    while True: a.append('x' * 10**6)", {"cpu_s": 8}),
    ("memory_bytes", "javascript", GROW.format("new Array(1e5).fill(1)"), {"cpu_s": 8}),
    ("memory_bytes", "javascript", GROW.format("Buffer.alloc(5e7, 1)"), {"cpu_s": 8}),
    ("memory_bytes", "python", FORKS, {"cpu_s": 8}),
    ("cpu_s", "python", "def main():\n    while True: pass", {"cpu_s": 1}),
    ("cpu_s", "javascript", "function main() { while (true); }", {"cpu_s": 1}),
    ("timeout_s", "python", "import time\ndef main(): time.sleep(60)", {"timeout_s": 1.0}),
    ("timeout_s", "javascript", WAIT, {"timeout_s": 1.0}),
    ("output_bytes", "python", "def main():\n    while True: print('x' * 1000)", {}),
    ("output_bytes", "python", "import os\ndef main():\n    while True: os.write(2, b'x' * 1000)", {}),
    ("output_bytes", "javascript", WRITE, {}),
    ("file_bytes", "python", LARGE_FILE, {"file_bytes": 8 * MEBIBYTE}),
    ("scratch_bytes", "python", FILL, {}),
    ("files", "python", FILES, {"cpu_s": 8}),
    ("artifact_types", "python", MADE.format("os.symlink('/usr/bin/env', 'artifacts/a.png')"), {}),
    ("artifact_types", "python", MADE.format("os.symlink('/usr', 'artifacts/a.png')"), {}),
    ("artifact_types", "python", MADE.format("open('artifacts/a.exe', 'w').close()"), {}),
    ("artifact_types", "python", MADE.format("os.mkfifo('artifacts/a.png')"), {}),
    ("artifacts", "python", MANY, {}),
    ("artifact_bytes", "python", LARGE, {"artifact_bytes": 1000}),
    ("result_bytes", "python", "def main(): return 'x' * 10**8", PATIENT),
    ("result_bytes", "javascript", "function main() { return 'x'.repeat(1e8); }", PATIENT),
    ("code_bytes", "python", "#" * 5_000_000 + "\ndef main(): return 1", {}),
]  # fmt: skip


@pytest.mark.parametrize("attack", range(len(ATTACKS)), ids=lambda number: f"{number}-{ATTACKS[number][0]}")
def test_a_program_that_exceeds_a_limit_ends(run: Run, attack: int) -> None:
    limit, language, code, limits = ATTACKS[attack]
    begun = time.monotonic()
    with pytest.raises(CodeLimitError) as caught:
        run(code, language, **limits)
    assert caught.value.limit == limit
    assert time.monotonic() - begun < 60


def test_only_the_scratch_folder_is_writable(run: Run) -> None:
    folders = ("/", "/dev", "/dev/shm", "/usr", "/usr/lib", "/etc", "/bin")
    results = probe(run, *(f"open({folder + '/x'!r}, 'w')" for folder in folders))
    assert set(results) <= {"OSError", "PermissionError", "FileNotFoundError", "NotADirectoryError"}
    assert probe(run, "os.mknod('artifacts/a.png', 0o20644, os.makedev(1, 3))") == ["PermissionError"]
    assert probe(run, "open('x', 'w').write('1')", "open('/tmp/x', 'w').write('1')") == ["1", "1"]


def test_files_of_the_host_are_not_there(run: Run, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET)
    paths = ["/etc/passwd", "/etc/shadow", "/root", "/home", str(tmp_path / "secret"), str(Path.home()), __file__]
    paths += ["/proc/1/environ", "/proc/self/mountinfo", "/sys/class", "/var/log", "/run", "/mnt", "/boot"]
    assert set(probe(run, *(f"os.stat({path!r})" for path in paths))) == {"FileNotFoundError"}


def test_the_environment_of_the_host_is_not_there(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOST_SECRET", SECRET)
    result = run("import os\ndef main(): return dict(os.environ)")
    assert SECRET not in str(result.value)
    result = run("function main() { return process.env; }", "javascript")
    assert SECRET not in str(result.value)


def test_runs_do_not_see_each_other(run: Run) -> None:
    assert run("def main():\n    open('/tmp/left', 'w').write('x')\n    return 1").value == 1
    assert probe(run, "os.listdir('/tmp')", "os.listdir('.')") == ["['run']", "['artifacts']"]
    assert probe(run, "os.getpid() < 50", "os.getuid()") == ["True", "65534"]


def test_there_is_no_network(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        results = probe(
            run,
            f"socket.create_connection(('127.0.0.1', {port}), 2)",
            "socket.create_connection(('169.254.169.254', 80), 2)",
            "socket.create_connection(('example.org', 80), 2)",
            "socket.socket(16, socket.SOCK_RAW)",  # netlink
            "socket.socket(40, socket.SOCK_STREAM)",
            imports="socket",
        )
    assert set(results) <= {"PermissionError", "gaierror", "OSError"}


JS_SOCKET = """
const socket = require('net').connect(80, '169.254.169.254');
function main() { return new Promise((done) => socket.on('error', (e) => done(e.code || e.name))); }"""


def test_javascript_has_no_network(run: Run) -> None:
    assert run(JS_SOCKET, "javascript").value in ("EPERM", "EACCES")


def test_a_forged_marker_remains_text(run: Run) -> None:
    forged = "__RAGFLOW_RESULT__:eyJwcmVzZW50Ijp0cnVlLCJ2YWx1ZSI6NjY2fQ=="
    result = run(f"def main():\n    print({forged!r})\n    return 1")
    assert (result.value, result.stdout) == (1, forged + "\n")


def test_signals_reach_only_the_program(run: Run) -> None:
    with subprocess.Popen(["sleep", "30"]) as bystander:
        results = probe(
            run,
            f"os.kill({os.getpid()}, 0)",
            f"os.kill({bystander.pid}, 9)",
            "os.kill(1, 9)",
            "os.kill(os.getppid(), 9)",
            imports="os",
        )
        assert set(results) <= {"ProcessLookupError", "PermissionError", "None"}
        assert bystander.poll() is None
        bystander.send_signal(signal.SIGKILL)
    result = run("import os\ndef main(): os.kill(-1, 9)")
    assert not result.has_value


LIBC = "ctypes.CDLL(None, use_errno=True)"
CALLS = (
    "unshare(0x10000000)",  # CLONE_NEWUSER
    "unshare(0x00020000)",  # CLONE_NEWNS
    "syscall(56, 0x10000011, 0, 0, 0, 0)",  # clone with CLONE_NEWUSER
    "ptrace(0, 0, 0, 0)",
    "ptrace(16, 1, 0, 0)",
    "mount(b'none', b'/tmp', b'tmpfs', 0, None)",
    "setns(0, 0)",
    "syscall(425, 8, 0)",  # io_uring_setup
    "syscall(321, 0, 0, 0)",  # bpf
    "syscall(319, b'x', 0)",  # memfd_create
    "syscall(250, 0, 0, 0)",  # keyctl
)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers of system calls are those of x86-64")
def test_dangerous_system_calls_are_refused(run: Run) -> None:
    results = probe(run, *(f"{LIBC}.{call}" for call in CALLS), imports="ctypes, os")
    assert dict(zip(CALLS, results, strict=True)) == dict.fromkeys(CALLS, "-1")


def test_programs_gain_no_privileges(run: Run) -> None:
    code = (
        "import ctypes, os, subprocess\n"
        "def main():\n"
        "    su = subprocess.run(['/usr/bin/su', '-c', 'id'], capture_output=True, stdin=subprocess.DEVNULL)\n"
        "    no_new_privileges = ctypes.CDLL(None).prctl(39, 0, 0, 0, 0)\n"
        "    is_ignored = bool(os.statvfs('/usr').f_flag & os.ST_NOSUID)\n"
        "    return [no_new_privileges, is_ignored, su.returncode != 0, os.geteuid()]"
    )
    assert run(code).value == [1, True, True, 65534]


def test_nothing_survives_a_program(run: Run) -> None:
    begun = time.monotonic()
    code = "import os, time\ndef main():\n    if os.fork() == 0:\n        os.setsid(); time.sleep(4321)\n    return 1"
    assert run(code).value == 1
    assert time.monotonic() - begun < 30, "the child must not keep the run open"


def test_a_value_without_json_form(run: Run) -> None:
    assert run("def main(): return [float('nan'), float('inf')]").value == [None, None]
    result = run("def main(): return b'\\xff'")
    assert (result.has_value, "not JSON serializable" in result.stderr) == (False, True)
    result = run("def main():\n    a = []\n    a.append(a)\n    return a")
    assert "Circular reference" in result.stderr
    result = run("function main() { const a = {}; a.a = a; return a; }", "javascript")
    assert "circular structure" in result.stderr
    assert "must return a value" in run("function main() {}", "javascript").stderr
    assert "not a function" in run("function main() { return main; }", "javascript").stderr


def test_deep_nesting_is_refused(run: Run) -> None:
    code = "def main(depth):\n    a = []\n    for _ in range(depth): a = [a]\n    return a"
    with pytest.raises(ServiceError, match="nested more than 100 levels deep"):
        run(code, arguments={"depth": 500})
    assert "nested too deeply" in run(code, arguments={"depth": 100_000}).stderr


def test_output_that_is_not_utf_8_is_replaced(run: Run) -> None:
    result = run("import sys\ndef main():\n    sys.stdout.buffer.write(b'a\\xff')\n    return '\\ud800'")
    assert (result.stdout, len(str(result.value))) == ("a\ufffd", 1)
    str(result.value).encode()  # lone surrogates are replaced


@each_row(("language", "code", "problem"), read_rows("code_errors"))
def test_a_program_without_a_proper_main_fails(run: Run, language: str, code: str, problem: str) -> None:
    result = run(code, language)
    assert problem in result.stderr
    assert "never awaited" not in result.stderr
    assert (result.has_value, result.exit_code) == (False, 1)
