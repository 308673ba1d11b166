"""A real Elasticsearch node for tests, built from the published artifacts; needs ``mvn`` and JDK 17 or later.

``python -m tests.harness.elasticsearch_node COMMAND…`` starts a node, runs the command with ``ELASTICSEARCH_URL`` and
stops the node. If the variable is already set, only the command is run.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "elasticsearch_node"
VARIABLE = "ELASTICSEARCH_URL"
START_S = 90.0


def build() -> str:
    """Resolve and compile the node; return the class path."""
    classpath = FOLDER / "target" / "classpath"
    sources = [FOLDER / "pom.xml", *FOLDER.glob("src/**/*.java")]
    if not classpath.exists() or classpath.stat().st_mtime < max(source.stat().st_mtime for source in sources):
        subprocess.run(["mvn", "-B", "-q", "-f", FOLDER / "pom.xml", "compile"], check=True)
        classpath.touch()
    return f"{FOLDER / 'target' / 'classes'}{os.pathsep}{classpath.read_text().strip()}"


@contextmanager
def elasticsearch_node() -> Generator[str]:
    """Start a node and yield its URL. The node ends with the context, or with this process."""
    classpath = build()
    with tempfile.TemporaryDirectory(prefix="ragflow-lg-elasticsearch-") as folder:
        log = Path(folder) / "output"
        options = ["-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true"]
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["java", *options, "-cp", classpath, "ragflowlg.ElasticsearchNode", folder],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            yield _wait_for_address(process, Path(folder), log)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_for_address(process: subprocess.Popen[bytes], folder: Path, log: Path) -> str:
    end = time.monotonic() + START_S
    address = folder / "address"
    while time.monotonic() < end and process.poll() is None:
        if address.exists():
            return address.read_text()
        time.sleep(0.1)
    raise RuntimeError(f"Elasticsearch did not start:\n{log.read_text(errors='replace')[-4000:]}")


def main(command: list[str]) -> int:
    """Run a command with a node."""
    if os.environ.get(VARIABLE):
        return subprocess.run(command, check=False).returncode
    with elasticsearch_node() as url:
        print(f"Elasticsearch answers at {url}", flush=True)
        return subprocess.run(command, check=False, env={**os.environ, VARIABLE: url}).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
