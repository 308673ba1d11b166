"""Bubblewrap for tests: the installed one, or Debian's package, unpacked into ``.cache`` without privileges.

``python -m tests.harness.bubblewrap_package`` unpacks it.
"""

import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.integrations.code.bubblewrap import find_bubblewrap

CACHE = Path(__file__).parents[2] / ".cache" / "bubblewrap"
_TRIAL = (
    "--unshare-all",
    "--ro-bind",
    "/usr",
    "/usr",
    "--symlink",
    "usr/lib",
    "/lib",
    "--symlink",
    "usr/lib64",
    "/lib64",
)


@cache
def find() -> tuple[str, str]:
    """Return the path of ``bwrap``, or ``""`` and why the tests of it are skipped."""
    unpacked = CACHE / "usr" / "bin" / "bwrap"
    try:
        path = find_bubblewrap("" if shutil.which("bwrap") else str(unpacked))
    except SettingsError as error:
        return "", f"{error} In tests: make services"
    trial = subprocess.run([path, *_TRIAL, "/usr/bin/true"], capture_output=True, text=True, check=False, timeout=20)
    if trial.returncode:
        return "", f"this system forbids the namespaces that bubblewrap needs: {trial.stderr.strip()[:200]}"
    return path, ""


def prepare() -> str:
    """Unpack the package if Bubblewrap is not installed; return what was done."""
    if sys.platform != "linux":
        return "bubblewrap: needs Linux; its tests are skipped."
    if find()[0]:
        return f"bubblewrap: found {find()[0]}."
    if not shutil.which("apt-get") or not shutil.which("dpkg"):
        return f"bubblewrap: {find()[1]} apt-get is missing to fetch it; its tests are skipped."
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        download = subprocess.run(
            ["apt-get", "download", "-qq", "bubblewrap"], cwd=folder, capture_output=True, text=True, check=False
        )
        files = list(Path(folder).glob("*.deb"))
        if download.returncode or not files:
            return f"bubblewrap: apt-get cannot fetch it ({download.stderr.strip()[-300:]}). Its tests are skipped."
        CACHE.mkdir(parents=True, exist_ok=True)
        subprocess.run(["dpkg", "-x", files[0], CACHE], check=True)
    find.cache_clear()
    path, reason = find()
    return f"bubblewrap: unpacked to {path}." if path else f"bubblewrap: {reason}. Its tests are skipped."


if __name__ == "__main__":
    sys.stdout.write(prepare() + "\n")
