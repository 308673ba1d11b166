from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from ragflow_lg.base.errors import ComponentError
from ragflow_lg.component.state_size import Size, StateSize
from ragflow_lg.dsl.compatibility import Compatibility
from ragflow_lg.services.services import StateLimits
from tests.fakes.canvas import text
from tests.fakes.policies import Canvases
from tests.fakes.regions import iteration, nested, play_run, runner_of
from tests.fakes.services import fake_services


def test_a_replaced_global_no_longer_counts() -> None:
    size, limits = StateSize(), StateLimits(100, 4)
    size.open({"globals": {"sys.history": ["h" * 1000], "env.a": "a" * 90, "env.b": [1, 2, 3], "env.c": 7}})
    with pytest.raises(ComponentError, match="state_chars"):
        size.replace("n", Size(11), limits)
    with pytest.raises(ComponentError, match="entries"):
        size.replace("n", Size(0, 2), limits)
    size.replace("global env.a", Size(89), limits)
    size.replace("global env.b", Size(0, 2), limits)
    size.replace("n", Size(11, 2), limits)
    size.replace("global env.a", Size(80), limits)
    size.add("global sys.history", Size(9), limits)
    with pytest.raises(ComponentError, match="state_chars"):
        size.add("global env.a", Size(1), limits)


TOO_LARGE = "All values of the turn would have more than 100,000 characters"


async def play(
    components: dict[str, Any], files: Sequence[Any] = (), *, is_old: bool = False
) -> tuple[str, str | None]:
    services = replace(fake_services(), state_limits=StateLimits(100_000, 2_000))
    deployment = Canvases(compatibility=Compatibility(old_values=is_old))
    runner = runner_of(components, services=services, deployment=deployment)
    run = runner.start("s", {"query": "q", "files": list(files)})
    await play_run(run)
    return run.status, run.error


async def test_a_node_fails_if_the_values_of_the_turn_exceed_a_limit() -> None:
    chain = {f"n{i}": text([f"n{i + 1}"], "x" * 30_000) for i in range(5)}
    status, error = await play({**chain, "n5": text()})
    assert (status, TOO_LARGE in (error or "")) == ("failed", True)
    assert (await play({**dict(list(chain.items())[:3]), "n3": text()}))[0] == "succeeded"


@pytest.mark.parametrize("concurrency", [0, 4])
@pytest.mark.parametrize("policy", [{}, {"exception_method": "comment", "exception_default_value": "nothing"}])
async def test_an_iteration_fails_if_what_it_collects_exceeds_a_limit(concurrency: int, policy: dict[str, Any]) -> None:
    body = {"t": text([], "x" * 10_000)}
    components = iteration(body, {"all": "t@result"}, items="sys.files", max_concurrency=concurrency, **policy)
    components["it"]["downstream"] = []
    files = [{"name": "a.txt", "content": "b"}] * 20
    status, error = await play(components, files=files)
    assert (status, TOO_LARGE in (error or "")) == ("failed", True)
    assert (await play(components, files=files[:5]))[0] == "succeeded"


@pytest.mark.parametrize(
    ("concurrency", "is_old", "status"), [(0, False, "succeeded"), (0, True, "failed"), (3, True, "succeeded")]
)
async def test_what_an_earlier_entry_has_collected_counts_if_it_is_kept(
    concurrency: int, is_old: bool, status: str
) -> None:
    components = nested("sys.files", "x" * 10_000, "x", max_concurrency=concurrency)
    components["it"]["obj"]["params"]["items_ref"] = "sys.files"
    files = [{"name": "a.txt", "content": "b"}] * 4
    assert (await play({**components, "out": text()}, files=files, is_old=is_old))[0] == status
