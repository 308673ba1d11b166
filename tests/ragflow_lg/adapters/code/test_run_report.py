"""What a program reports in place of a sandbox: names and lines that a sandbox would never write."""

import json

import pytest

from ragflow_lg.adapters.code.code_settings import CodeLimits
from ragflow_lg.adapters.code.sandbox_process import Ending, read_ending
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.services.code import CodeResult


def read_report(*lines: str) -> CodeResult:
    report = "".join(f"{line}\n" for line in lines).encode()
    return read_ending(Ending(b"", b"", report, 0), CodeLimits())


@pytest.mark.parametrize(
    "name", ["../x.csv", "/etc/x.csv", "a/../../x.csv", "a\\b.csv", "", "a\nb.csv", "x" * 300 + ".csv"]
)
def test_names_of_artifacts_cannot_leave_the_folder(name: str) -> None:
    with pytest.raises(ServiceError, match="has a name that cannot be used"):
        read_report(json.dumps({"artifact": name, "content": "eA=="}))


@pytest.mark.parametrize("line", ["nonsense", "[" * 100_000, "[1]", '{"value": 5}', '{"artifact": 1}'])
def test_a_damaged_report_is_an_error(line: str) -> None:
    with pytest.raises(ServiceError, match="has damaged the report"):
        read_report('{"value": "1"}', line)
