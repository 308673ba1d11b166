"""Replace the tags of images by digests, or by newer ones, in the Dockerfile and the compose file.

The digests come from the images' registry, so this needs Docker and a network.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILES = ("Dockerfile", "docker-compose.yml")
IMAGE = re.compile(r"(?m)^(?P<before>FROM +|\s+image: +)(?P<name>[\w./-]+:[\w.-]+)(?P<digest>@sha256:[0-9a-f]{64})?")


def pin(text: str, own: str = "ragflow-lg:latest") -> str:
    """Return a text with the current digest after the name of each image, except that of our ``own`` image."""

    def with_digest(found: re.Match[str]) -> str:
        name = found["name"]
        return found[0] if name == own else f"{found['before']}{name}@{find_digest(name)}"

    return IMAGE.sub(with_digest, text)


def find_digest(name: str) -> str:
    """Return the digest of an image for all platforms."""
    command = ["docker", "buildx", "imagetools", "inspect", name, "--format", "{{.Manifest.Digest}}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    except FileNotFoundError:
        sys.exit("This needs Docker with buildx.")
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        sys.exit(f"The digest of {name} cannot be found; the registry must be reachable. {error.stderr or ''}".strip())
    digest = done.stdout.strip()
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        sys.exit(f"Docker returned no digest for {name}: {digest!r}.")
    return digest


def main() -> None:
    """Change the files."""
    pinned = {ROOT / file: pin((ROOT / file).read_text("utf-8")) for file in FILES}
    for file, text in pinned.items():
        file.write_text(text, "utf-8")
        sys.stdout.write(f"{file.relative_to(ROOT)}: {len(IMAGE.findall(text))} images\n")


if __name__ == "__main__":
    main()
