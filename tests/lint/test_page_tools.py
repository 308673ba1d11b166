"""The development tools of the page: pinned, from any registry, with the types of the libraries that the page has."""

import json
import re

from tests.architecture.sources import ROOT

FOLDER = ROOT / ".ci" / "page_tools"
PINNED = json.loads((FOLDER / "package.json").read_text("utf-8"))["devDependencies"]
SCRIPT = (ROOT / "deploy" / "fetch_page_libraries.sh").read_text("utf-8")
LIBRARIES = dict(re.findall(r"^fetch (\w+) (\S+) ", SCRIPT, re.MULTILINE))
LOCK = json.loads((FOLDER / "package-lock.json").read_text("utf-8"))


def test_the_tools_are_pinned_by_hash_and_name_no_registry() -> None:
    packages = {path: package for path, package in LOCK["packages"].items() if path}
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in PINNED.values())
    assert {name: packages[f"node_modules/{name}"]["version"] for name in PINNED} == PINNED
    assert all(package["integrity"].startswith("sha512-") for package in packages.values())
    assert not any("resolved" in package for package in packages.values())


def test_the_types_are_those_of_the_libraries() -> None:
    packages = dict(package.rsplit("@", 1) for package in LIBRARIES.values())
    assert {name: PINNED[name] for name in packages} == packages
    assert {file.name for file in (FOLDER / "vendor").iterdir()} == {f"{name}.d.ts" for name in LIBRARIES}


def test_every_text_of_the_page_has_a_name_of_its_own() -> None:
    folder = ROOT / "server" / "page" / "js"
    names = [
        name
        for file in (*folder.glob("*texts.js"),)
        for name in re.findall(r"^  (\w+): \[", file.read_text("utf-8"), re.MULTILINE)
    ]
    assert len(names) > 100
    assert sorted(names) == sorted(set(names))
