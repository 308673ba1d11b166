"""The development tools of the page: pinned, from any registry, with the types of the libraries that the page has."""

import gzip
import json
import re
from hashlib import sha256

from ragflow_lg.server.page.joined_scripts import join_scripts
from tests.architecture.sources import ROOT

FOLDER = ROOT / ".ci" / "page_tools"
PINNED = json.loads((FOLDER / "package.json").read_text("utf-8"))["devDependencies"]
PAGE = ROOT / "server" / "page"
LIBRARIES = json.loads((PAGE / "vendor" / "vendor.json").read_text("utf-8"))
LOCK = json.loads((FOLDER / "package-lock.json").read_text("utf-8"))


def test_the_tools_are_pinned_by_hash_and_name_no_registry() -> None:
    packages = {path: package for path, package in LOCK["packages"].items() if path}
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in PINNED.values())
    assert {name: packages[f"node_modules/{name}"]["version"] for name in PINNED} == PINNED
    assert all(package["integrity"].startswith("sha512-") for package in packages.values())
    assert not any("resolved" in package for package in packages.values())


def test_the_libraries_are_those_of_their_packages() -> None:
    assert {each["file"]: each["sha256"] for each in LIBRARIES} == {
        file.name: sha256(file.read_bytes()).hexdigest() for file in (PAGE / "vendor").glob("*.js")
    }
    assert all((PAGE / "vendor" / each["file"]).with_suffix(".LICENSE").is_file() for each in LIBRARIES)


def test_the_types_are_those_of_the_libraries() -> None:
    assert all(PINNED.get(each["name"], each["version"]) == each["version"] for each in LIBRARIES)
    assert {file.name for file in (FOLDER / "vendor").iterdir()} == {
        each["file"].replace(".js", ".d.ts") for each in LIBRARIES
    }


def test_every_icon_that_is_used_is_there() -> None:
    (icons,) = (each["icons"] for each in LIBRARIES if "icons" in each)
    used = {
        name
        for file in (PAGE / "js").glob("*.js")
        for name in re.findall(r'(?:<\$\{Icon\} name=|\bicon: )"([^"]+)"', file.read_text("utf-8"))
    }
    assert used <= icons.keys()


def test_every_text_of_the_page_has_a_name_of_its_own() -> None:
    folder = PAGE / "js"
    names = [
        name
        for file in (*folder.glob("*texts.js"),)
        for name in re.findall(r"^  (\w+): \[", file.read_text("utf-8"), re.MULTILINE)
    ]
    assert len(names) > 100
    assert sorted(names) == sorted(set(names))


def test_the_first_view_is_small() -> None:
    index = (PAGE / "index.html").read_text("utf-8")
    files = {file: PAGE / file for file in re.findall(r'(?:href|src)="page/([^"]+)"', index) if file != "main.js"}
    script = join_scripts(PAGE / "js" / "main.js")
    parts = [index.encode(), script.encode(), *(file.read_bytes() for file in files.values())]
    assert sum(len(gzip.compress(part)) for part in parts) < 350_000
    assert len(parts) <= 14  # each part costs a request, which costs more than its bytes
    assert 'modules["vendor/preact.js"] = ' in script
    assert not re.search(
        r'modules\["(js/diagram|vendor/(highlight|mermaid|temml))\.js"\] = ', script
    )  # loaded when needed


def test_what_is_loaded_later_imports_nothing() -> None:
    """It is a file beside the joined script: a module that both have would run twice, with two states."""
    later = {
        (file.parent / path).resolve()
        for file in (PAGE / "js").glob("*.js")
        for path in re.findall(r'\bimport\("([^"]+)"\)(?=;|\.then)', file.read_text("utf-8"))
    }
    assert len(later) >= 3
    assert not [file.name for file in later if re.search(r"^import\b", file.read_text("utf-8"), re.MULTILINE)]
