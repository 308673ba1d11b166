"""A short form of the campaign ``real-model``: what goes wrong with a real model and its server."""

import pytest

from tests.harness.llama_server import is_installed
from tests.harness.real_model import find_scenes, open_stage, play_scene


@pytest.mark.slow
@pytest.mark.skipif(not is_installed(), reason="no real model is installed; run `make services`")
async def test_nothing_passes_for_what_it_is_not() -> None:
    async with open_stage() as stage:
        played = {name: await play_scene(stage, scene) for name, scene in find_scenes(is_short=True).items()}
    assert {name: seen for name, (is_well, seen) in played.items() if not is_well} == {}


def test_every_example_is_a_scene() -> None:
    assert {"abilities", "handbook_agent", "deep_research", "report"} <= find_scenes().keys()
