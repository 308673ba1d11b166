"""The table is compared with a simulation that follows each combination of choices by itself."""

import random
from itertools import product
from typing import Any

from ragflow_lg.base.ids import NodeId
from ragflow_lg.dsl_compiler.analysis.activity import Activity
from ragflow_lg.dsl_compiler.compiler import run_passes
from ragflow_lg.dsl_compiler.diagnostics import Reporter
from ragflow_lg.dsl_compiler.draft import Draft, build_flows
from tests.fakes.canvas import CATALOG, canvas, switch, text
from tests.harness.rows import each_row


def random_canvas(seed: int) -> dict[str, Any]:
    dice = random.Random(seed)
    count = dice.randint(3, 12)
    components: dict[str, Any] = {}
    for n in range(count):
        later = [f"n{m}" for m in range(n + 1, count)]
        chosen = dice.sample(later, min(len(later), dice.randint(0, 3)))
        if len(chosen) > 1 and dice.random() < 0.5:
            components[f"n{n}"] = switch(chosen[:1], chosen[1:], "=", f"sys.v{n}")
        else:
            components[f"n{n}"] = text(chosen)
    return canvas(components)


def activity_of(document: dict[str, Any]) -> Activity:
    draft = run_passes(Draft(document, "", CATALOG), Reporter())
    return Activity(draft, build_flows(draft)[None])


def simulate(activity: Activity, choice: dict[NodeId, int]) -> set[NodeId]:
    ran = {activity.flow.entry}
    queue = [activity.flow.entry]
    for id_ in queue:
        choices = activity.choices.get(id_)
        targets = choices[choice[id_]].targets if choices else activity.flow.successors[id_]
        queue += [t for t in targets if t not in ran]
        ran.update(targets)
    return ran


@each_row("seed", range(60))
def test_the_table_equals_a_simulation_of_every_combination(seed: int) -> None:
    activity = activity_of(random_canvas(seed))
    table = activity.whole
    assert table is not None
    routers = list(activity.choices)
    for numbers in product(*[range(len(activity.choices[r])) for r in routers]):
        choice = dict(zip(routers, numbers, strict=True))
        bits = table.all
        for router, number in choice.items():
            bits &= table.masks[router, number]
        assert bits.bit_count() == 1
        expected = simulate(activity, choice)
        assert {id_ for id_, mask in table.active.items() if mask & bits} == expected
        for id_ in expected:
            assert len(activity.path(table, bits.bit_length() - 1, id_)) >= 1
