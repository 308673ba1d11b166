import json
import stat
from pathlib import Path

import pytest

from ragflow_lg.adapters.recording.cassette import HEADER, CassetteWriter, Failure, Line, read_cassette
from ragflow_lg.base.errors import CassetteError
from tests.harness.rows import each_row

LINES = [
    Line(call="tools", is_fact=True, answer={"endpoints": {"wikipedia": "http://w"}}),
    Line(call="ids.seed", is_fact=True, answer=7),
    Line(call="models.model", is_fact=True, request={"llm_id": "none"}, error=Failure("setting", "It is not set.")),
    Line(
        call="models.stream",
        order=1,
        node="LLM:0",
        position="1.2/0.0",
        request={"model": "m", "half": "\ud800"},
        answer=["ü", ["hm", True, [], None, ""]],
        error=Failure("service", "It fell.", is_retryable=True, retry_after_s=1.5),
    ),
    Line(call="servers.call", order=4, node="Agent:0", error=Failure("time", limit_s=0.5)),
    Line(call="http.send", order=5, node="Invoke:0", request={"url": "http://x"}, is_stopped=True),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "run.jsonl"
    with CassetteWriter(file) as writer:
        for line in LINES:
            writer.write(line)
    return file


def test_lines_are_read_as_they_were_written(path: Path) -> None:
    assert read_cassette(path) == list(enumerate(LINES, 2))
    assert json.loads(path.read_text("utf-8").splitlines()[0]) == HEADER


def test_only_its_owner_can_read_it(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    for _ in range(2):
        with CassetteWriter(file):
            pass
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        file.chmod(0o644)  # one from an earlier version is closed when it is overwritten


def test_a_line_can_be_read_as_soon_as_it_is_written(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    writer = CassetteWriter(file)
    for count, line in enumerate(LINES, 1):
        writer.write(line)
        assert len(read_cassette(file)) == count
    with writer:
        pass
    writer.write(LINES[0])
    assert len(read_cassette(file)) == len(LINES)


def test_an_incomplete_last_line_is_ignored(path: Path) -> None:
    data = path.read_bytes()
    for cut in (1, 5, 40):
        path.write_bytes(data[:-cut])
        assert read_cassette(path) == list(enumerate(LINES[:-1], 2))


@each_row(
    ("damage", "problem"),
    [
        (b"{", "damaged on line 4: .*Remove the line, or record again"),
        (b"[" * 100_000, "damaged on line 4"),
        (b"[]", "damaged on line 4"),
        (b"\xff\xfe", "damaged on line 4"),
        (b"{}", "damaged on line 4: .*`call`"),
        (b'{"call": "ids.seed", "order": "x"}', "damaged on line 4: Expected `int`.*order"),
        (b'{"call": "ids.seed", "more": 2}', "damaged on line 4: .*`more`"),
    ],
)
def test_a_damaged_line_is_named(path: Path, damage: bytes, problem: str) -> None:
    lines = path.read_bytes().splitlines()
    lines[3] = damage
    path.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(CassetteError, match=problem):
        read_cassette(path)


@each_row("content", [b"", b"{}\n", b"\x00\x01\n", b'{"recording": "ragflow-lg"}', b"x" * 100])
def test_another_file_is_not_a_recording(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "other"
    file.write_bytes(content)
    with pytest.raises(CassetteError, match=r"is not a recording|line 1"):
        read_cassette(file)


def test_only_recordings_are_overwritten(path: Path, tmp_path: Path) -> None:
    with CassetteWriter(path):
        pass
    assert read_cassette(path) == []
    other = tmp_path / "canvas.json"
    other.write_text('{"components": {}}')
    with pytest.raises(CassetteError, match="is not a recording and will not be overwritten"):
        CassetteWriter(other)
    assert other.read_text() == '{"components": {}}'
    (tmp_path / "empty").touch()
    with CassetteWriter(tmp_path / "empty"):
        pass


def test_inaccessible_files_are_errors(tmp_path: Path) -> None:
    for wrong in (tmp_path, tmp_path / "none" / "x.jsonl", Path("a\0b")):
        with pytest.raises(CassetteError, match=r"cannot be (read|written)"):
            CassetteWriter(wrong)
        with pytest.raises(CassetteError, match="cannot be read"):
            read_cassette(wrong)
