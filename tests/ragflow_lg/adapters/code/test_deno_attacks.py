"""Hostile programs in Deno that try what only Deno or Pyodide have."""

import asyncio
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.adapters.code.deno import Deno
from ragflow_lg.base.errors import CodeLimitError
from ragflow_lg.services.code import CodeRequest
from tests.harness import pyodide_package
from tests.ragflow_lg.adapters.code.sandboxes import DENO_USERS, Run, open_run, probe, require_deno

pytestmark = pytest.mark.slow


@pytest.fixture(params=[("deno", user) for user in DENO_USERS], ids="-".join)
def run(request: Any) -> Run:
    """Run programs in Deno."""
    provider, user = request.param
    return open_run(provider, user)


def attempt(run: Run, *expressions: str) -> list[str]:
    """Evaluate JavaScript; return the name and the beginning of each error, or the value as text."""
    code = """
    const kept = (text) => `${text}`.slice(0, 60);
    async function main({ expressions }) {
      const { createRequire } = require('module');
      const seen = [];
      for (const text of expressions) {
        try {
          const value = await new Function('require', `return (async () => (${text}))();`)(require);
          seen.push(kept(typeof value === 'object' ? JSON.stringify(value) : value));
        } catch (error) {
          seen.push(kept(`${error.name}: ${error.message}`));
        }
      }
      return seen;
    }
    """
    result = run(code, "javascript", {"expressions": list(expressions)})
    assert isinstance(result.value, list), result.stderr
    return [str(entry) for entry in result.value]


ERROR = re.compile(r"[A-Za-z]+(Error|Exception)")
REFUSED = ("NotCapable: Requires", "TypeError: Requires", "Error: Requires")


FORBIDDEN = (
    "Deno.readTextFileSync('/etc/passwd')",
    "Deno.readTextFileSync('/proc/self/environ')",
    "Deno.readDirSync('/').toArray()",
    "Deno.statSync('/etc')",
    "Deno.writeTextFileSync('/tmp/x', '1')",
    "Deno.makeTempFileSync()",
    "Deno.env.toObject()",
    "Deno.hostname()",
    "Deno.uid()",
    "Deno.systemMemoryInfo()",
    "new Deno.Command('/bin/true').outputSync()",
    "Deno.kill(Deno.ppid, 'SIGKILL')",
    "Deno.dlopen('libc.so.6', {})",
    "Deno.connect({ port: 80, hostname: '127.0.0.1' })",
    "Deno.listen({ port: 0 })",
    "Deno.resolveDns('example.org', 'A')",
    "fetch('http://169.254.169.254/')",
    "fetch('file:///etc/passwd')",
    "require('child_process').execSync('id')",
    "require('net').createServer().listen(0)",
    "require('os').userInfo()",
    "require('inspector').open(9229)",
    "require('v8').writeHeapSnapshot('/tmp/heap')",
    "require('/etc/hostname')",
    "import('file:///etc/pass' + 'wd', { with: { type: 'text' } })",
    "import('data:application/javascript,' + encodeURIComponent("
    "`export * from 'file:///etc/passwd' with { type: 'text' }`))",
)


def test_a_program_has_no_permission(run: Run) -> None:
    seen = dict(zip(FORBIDDEN, attempt(run, *FORBIDDEN), strict=True))
    assert {expression: text for expression, text in seen.items() if not text.startswith(REFUSED)} == {}


def test_nothing_is_downloaded(run: Run) -> None:
    addresses = [("https", "//example.org/x.js"), ("npm", "left-pad"), ("jsr", "@std/path")]
    seen = attempt(run, *(f"import('{name}:' + '{rest}')" for name, rest in addresses))
    assert all(text.startswith("TypeError: ") for text in seen), seen


def test_permissions_cannot_be_requested(run: Run) -> None:
    names = ("read", "net", "run", "env", "sys", "ffi", "write")
    seen = attempt(run, *(f"(await Deno.permissions.request({{ name: '{name}' }})).state" for name in names))
    assert set(seen) == {"denied"}


def test_nothing_is_stored_for_the_next_program(run: Run) -> None:
    attempt(
        run,
        "localStorage.setItem('a', 'left')",
        "caches.open('a').then((c) => c.put('http://a/', new Response('left')))",
    )
    seen = attempt(run, "localStorage.getItem('a')", "caches.match('http://a/').then((r) => r && r.text())")
    assert "left" not in str(seen)


@pytest.mark.parametrize("permissions", ["'inherit'", "{ read: true }"])
def test_workers_get_no_more_than_the_program(run: Run, permissions: str) -> None:
    code = f"""
    function main() {{
      const text = 'postMessage(Deno.readTextFileSync("/etc/passwd").length)';
      const options = {{ type: 'module', deno: {{ permissions: {permissions} }} }};
      return new Promise((done) => {{
        const worker = new Worker('data:application/javascript,' + encodeURIComponent(text), options);
        worker.onmessage = (event) => done(['read', event.data]);
        worker.onerror = (event) => {{ event.preventDefault(); done(event.message); }};
      }});
    }}"""
    result = run(code, "javascript")
    assert not isinstance(result.value, list)
    assert "Requires read access" in f"{result.value}{result.stderr}" or "unstable" in result.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="ps does not count threads")
def test_too_many_workers_end(run: Run) -> None:
    code = """
    async function main() {
      for (let i = 0; i < 200; i++) new Worker('data:application/javascript,for(;;);', { type: 'module' });
      await new Promise((done) => setTimeout(done, 9000));
    }"""
    with pytest.raises(CodeLimitError) as caught:
        run(code, "javascript", cpu_s=60, memory_bytes=2**30)
    assert caught.value.limit in ("processes", "memory_bytes")


FORBIDDEN_IN_PYTHON = (
    "os.fork()",
    "subprocess.run(['id'])",
    "os.mknod('artifacts/a.png', 0o20644)",
    "threading.Thread(target=print).start()",
    "ctypes.CDLL(None).unshare(0x10000000)",
    "js.Deno.readTextFileSync('/etc/passwd')",
    "js.Deno.readTextFileSync(js.Deno.args[1])",
    "pyodide_js.runPython('1')(1)",
    "pyodide.code.run_js('Deno.readTextFileSync(\"/etc/passwd\")')",
    "js.XMLHttpRequest.new().open('GET', 'http://127.0.0.1/')",
    "open('/etc/passwd')",
)


def test_python_reaches_no_more_than_javascript(run: Run) -> None:
    imports = "ctypes, js, os, pyodide.code, pyodide_js, subprocess, threading"
    seen = dict(zip(FORBIDDEN_IN_PYTHON, probe(run, *FORBIDDEN_IN_PYTHON, imports=imports), strict=True))
    assert {expression: text for expression, text in seen.items() if not ERROR.fullmatch(text)} == {}


def test_a_command_of_the_system_ends_a_python_program(run: Run) -> None:
    result = run("import os\ndef main(): return os.system('id')")
    assert (result.has_value, "Requires env access" in result.stderr) == (False, True)


def test_python_packages_are_not_downloaded(run: Run) -> None:
    code = (
        "import asyncio, pyodide_js\n"
        "def main():\n"
        "    try: asyncio.run(pyodide_js.loadPackage('numpy'))\n"
        "    except BaseException as error: print(error)\n"
        "    import numpy\n"
    )
    assert not run(code).has_value


def test_the_environment_is_that_of_the_sandbox(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOST_SECRET", "a-secret-of-the-host")
    result = run("import os\ndef main(): return sorted(os.environ)")
    assert result.value == ["HOME", "LANG", "PATH", "TMPDIR"]


def test_random_numbers_differ_between_programs(run: Run) -> None:
    code = "import random, uuid\ndef main(): return [random.random(), str(uuid.uuid4())]"
    assert run(code).value != run(code).value


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's /proc")
async def test_the_process_has_no_privileges() -> None:
    sandbox = Deno(require_deno(), pyodide_package.FOLDER)
    code = "function main() { return new Promise((done) => setTimeout(() => done(Deno.pid), 1500)); }"
    task = asyncio.create_task(sandbox.run(CodeRequest("javascript", code)))
    await asyncio.sleep(1)
    children = Path("/proc/thread-self/children").read_text("ascii").split()
    statuses = {child: Path(f"/proc/{child}/status").read_text("ascii") for child in children}
    status = statuses[str((await task).value)]
    assert "NoNewPrivs:\t1" in status
    assert os.geteuid() or "Uid:\t65534\t65534\t65534\t65534" in status


def test_a_program_that_floods_its_channel_ends(run: Run) -> None:
    code = "function main() { const line = { value: 'x'.repeat(1e6) }; while (true) process.send(line); }"
    with pytest.raises(CodeLimitError):
        run(code, "javascript", cpu_s=8)
