"""What the image consists of: distributions by hash, images by tag or digest."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.architecture.sources import ROOT

FILES = ("Dockerfile", "docker-compose.yml")
REQUIREMENTS = ROOT / "deploy" / "requirements.txt"
DIGEST = "sha256:" + "0123456789abcdef" * 4


def hashed() -> dict[str, tuple[str, list[str]]]:
    """Return the version and the hashes of each distribution."""
    entries = REQUIREMENTS.read_text("utf-8").replace("\\\n", "").splitlines()
    parts = [entry.split() for entry in entries if not entry.startswith("#")]
    return {pin.partition("==")[0]: (pin.partition("==")[2], hashes) for pin, *hashes in parts}


def test_every_distribution_of_the_image_has_a_hash_and_the_pinned_version() -> None:
    pins = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    assert "://" not in REQUIREMENTS.read_text("utf-8")
    for name, (version, hashes) in hashed().items():
        assert f"{name}=={version}" in {pin.partition(" ")[0] for pin in pins}, f"{name}: see CONTRIBUTING.md"
        assert hashes
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", each) for each in hashes), name


def test_everything_that_the_distribution_needs_is_among_them() -> None:
    document = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    extras = document["project"]["optional-dependencies"]
    lines = document["build-system"]["requires"] + document["project"]["dependencies"]
    lines += [line for all_ in extras["all"] for name in Requirement(all_).extras for line in extras[name]]
    names = {canonicalize_name(Requirement(line).name) for line in lines}
    assert names - hashed().keys() <= {document["project"]["name"]}, "see CONTRIBUTING.md"


def test_the_dockerfile_installs_only_what_has_a_hash(tmp_path: Path) -> None:
    text = (ROOT / "Dockerfile").read_text("utf-8")
    installs = re.findall(r"pip install ([^\n]*)", text)
    assert len(installs) == 3
    assert all("--require-hashes" in each or "--no-index" in each for each in installs)
    assert all("--no-build-isolation" in each for each in installs[1:])
    command = re.search(r"sed -n '[^']+'", text)
    assert command
    done = subprocess.run(["sh", "-c", f"{command[0]} {REQUIREMENTS}"], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"setuptools==\S+ \\\n(    --hash=sha256:[0-9a-f]{64}( \\)?\n)+", done.stdout)


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that stands for Docker: the registry of the images cannot be reached here."""
    program = tmp_path / "bin" / "docker"
    program.parent.mkdir()
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return program


def answer(program: Path, line: str, code: int = 0) -> None:
    program.write_text(f"#!/bin/sh\necho '{line}'\nexit {code}\n")
    program.chmod(0o755)


def pin(folder: Path) -> tuple[int, dict[str, str]]:
    """Pin the images in a copy. Return the exit code and the texts of the files."""
    (folder / "deploy").mkdir(exist_ok=True)
    for file in (*FILES, "deploy/pin_images.sh"):
        if not (folder / file).exists():
            shutil.copy(ROOT / file, folder / file)
    done = subprocess.run(["sh", folder / "deploy" / "pin_images.sh"], capture_output=True, check=False)
    return done.returncode, {file: (folder / file).read_text("utf-8") for file in FILES}


def test_images_are_pinned_by_digest_and_again(docker: Path, tmp_path: Path) -> None:
    answer(docker, DIGEST)
    assert pin(tmp_path) == pin(tmp_path)
    code, texts = pin(tmp_path)
    assert code == 0
    for file, pinned in texts.items():
        bases = re.findall(r"(?m)^FROM (\S+)|^ +image: (\S+)", pinned)
        assert bases
        for names in bases:
            name = "".join(names)
            assert name.endswith(f"@{DIGEST}") or name == "ragflow-lg:latest"
        assert re.sub(r"@sha256:[0-9a-f]{64}", "", pinned) == (ROOT / file).read_text("utf-8")
    compose = yaml.safe_load(texts["docker-compose.yml"])
    assert compose["services"]["redis"]["image"] == f"redis:8.2-bookworm@{DIGEST}"


@pytest.mark.parametrize(("line", "code"), [("no route", 1), ("not a digest", 0)])
def test_without_a_registry_no_file_is_changed(docker: Path, tmp_path: Path, line: str, code: int) -> None:
    answer(docker, line, code)
    assert pin(tmp_path) == (1, {file: (ROOT / file).read_text("utf-8") for file in FILES})
