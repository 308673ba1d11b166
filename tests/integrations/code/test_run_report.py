"""What a program reports in place of a sandbox: names and lines that a sandbox would never write."""

import asyncio
import base64
import json
import sys
from typing import Any

import pytest

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.integrations.code.code_settings import CodeLimits
from ragflow_lg.integrations.code.programs import CodeResult
from ragflow_lg.integrations.code.sandbox_process import Ending, SandboxCommand, execute, read_ending
from ragflow_lg.services.workers import NoWorkers, Workers
from tests.fakes.counted_workers import CountedWorkers
from tests.harness.rows import each_row


def read_report(*lines: str, workers: Workers | None = None) -> CodeResult:
    report = [line.encode() for line in lines]
    return asyncio.run(read_ending(Ending(b"", b"", report, 0), CodeLimits(), workers or NoWorkers()))


@each_row("name", ["../x.csv", "/etc/x.csv", "a/../../x.csv", "a\\b.csv", "", "a\nb.csv", "x" * 300 + ".csv"])
def test_names_of_artifacts_cannot_leave_the_folder(name: str) -> None:
    with pytest.raises(ServiceError, match="has a name that cannot be used"):
        read_report(json.dumps({"artifact": name}), '"eA=="')


@each_row(
    "lines",
    [
        *(
            [line]
            for line in ("nonsense", "[" * 100_000, "[1]", '{"value": 5}', '{"artifact": 1}', '{"artifact": "a.csv"}')
        ),
        *(['{"artifact": "a.csv"}', line] for line in ("", '"', "eA==", '"eA=="x', '"e\\u0041=="', '"e"', "[]")),
        ['{"value": "1"}', '{"value": "2"}'],
    ],
)
def test_a_damaged_report_is_an_error(lines: list[str]) -> None:
    with pytest.raises(ServiceError, match="has damaged the report"):
        read_report(*lines)


def report_of(*chunks: bytes, **limits: Any) -> Ending:
    """Return what the host keeps of a report that a process writes, as long as it may."""
    program = "import sys\nwith open(int(sys.argv[1]), 'wb') as pipe: pipe.writelines(eval(sys.stdin.read()))"
    command = SandboxCommand(lambda report, _: [sys.executable, "-c", program, str(report)], {})

    async def watch(pid: int, limits: CodeLimits) -> None:
        return None

    return asyncio.run(execute(command, repr(chunks).encode(), CodeLimits(timeout_s=60, **limits), watch))


@pytest.mark.skipif(sys.platform == "win32", reason="there is no local sandbox on Windows")
@each_row("piece", [b"{}\n", b"\n", b'{"value": "1"}\n', b'{"artifact": "a.csv"}\n"eA=="\n'])
def test_a_flood_of_lines_is_neither_kept_nor_parsed(piece: bytes) -> None:
    ending = report_of(piece * 200_000)
    assert ending.report is None
    with pytest.raises(ServiceError, match="has damaged the report"):
        asyncio.run(read_ending(ending, CodeLimits(), NoWorkers()))


@pytest.mark.skipif(sys.platform == "win32", reason="there is no local sandbox on Windows")
def test_a_report_has_at_most_as_many_bytes_as_values_and_artifacts_may_have() -> None:
    limits = {"artifacts": 1, "artifact_bytes": 30_000, "result_bytes": 20_000}
    assert report_of(b"x" * 500_000, **limits).exceeded == "result_bytes"
    value = json.dumps({"value": json.dumps('"' * 9_000)})
    lines = [json.dumps({"artifact": "a.csv"}), json.dumps("A" * 40_000), value]
    ending = report_of("".join(f"{line}\n" for line in lines).encode(), **limits)
    assert ending.report == [line.encode() for line in lines]


def test_a_large_value_is_read_in_a_worker_and_a_small_one_is_not() -> None:
    workers = CountedWorkers()
    assert read_report(json.dumps({"value": "[1]"}), workers=workers).value == [1]
    assert workers.names == []
    large = ["x" * 100_000]
    assert read_report(json.dumps({"value": json.dumps(large)}), workers=workers).value == large
    assert workers.names == ["read_value_line"]


@each_row(
    ("value", "problem"),
    [
        ("[" + "[]," * 1_300_000 + "[]]", "it has more than 200,000 entries"),
        ("[" * 80 + "]" * 80, "nested deeper than 64 levels"),
        ("[" * 100_000, "it is nested more than 100 levels deep"),
        ("9" * 100_000, "it is not valid"),
        ("x" * 5_000_000, "it has more than 4,194,304 bytes"),
    ],
)
def test_a_value_that_is_too_large_is_an_error(value: str, problem: str) -> None:
    with pytest.raises(ServiceError, match=problem):
        read_report(json.dumps({"value": value}))


def test_a_large_artifact_arrives_without_being_parsed() -> None:
    content, workers = bytes(range(256)) * 20_000, CountedWorkers()
    lines = json.dumps({"artifact": "ü.csv"}), f'"{base64.b64encode(content).decode()}"'
    (artifact,) = read_report(*lines, '{"value": "1"}', workers=workers).artifacts
    assert (artifact.name, artifact.content, workers.names) == ("ü.csv", content, [])
