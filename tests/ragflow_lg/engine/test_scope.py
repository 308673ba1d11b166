"""Regions from the engine's side; what they do is in the tests of the components."""

from typing import Any

from tests.fakes.regions import answer_of, assign, iteration, loop, node, out, play_run, runner_of, text


async def test_what_lies_around_is_read_and_not_copied() -> None:
    """A body reads a large value outside; none of its checkpoints holds it."""
    body = {"t": text(["k"], "{big@result}".replace("big", "big")), "k": assign("lp@n", "t@result")}
    big = {"big": text(["lp"], "x" * 5000), **loop(body, count=3, variables={"n": ""}), **out("done")}
    from langgraph.checkpoint.memory import InMemorySaver

    saver = InMemorySaver()
    await play_run(runner_of(big, first=["big"], saver=saver).start("s", {"query": "q"}))
    inner = [
        c.checkpoint["channel_values"] async for c in saver.alist(None) if c.config["configurable"]["checkpoint_ns"]
    ]  # type: ignore[typeddict-item]
    assert inner
    assert all("big" not in values.get("outputs", {}) for values in inner)
    assert all("sys.query" not in values.get("globals", {}) for values in inner)


async def test_what_the_body_writes_reaches_every_level_around() -> None:
    inner = {
        "lp": node("Loop", {"maximum_loop_count": 2}, [], parent_id="it"),
        "li": node("LoopItem", {}, ["w"], parent_id="lp"),
        "w": {**assign("env.n", "", "+=", ["v"]), "parent_id": "lp"},
        "v": {**assign("first@result", "ii@item", "overwrite"), "parent_id": "lp"},
    }
    inner["w"]["obj"]["params"]["variables"][0]["parameter"] = 1
    components: dict[str, Any] = {"first": text(["it"]), **iteration(inner, {}), **out("{env.n} {first@result}")}
    components["ii"]["downstream"] = ["lp"]
    variables = {"n": {"name": "n", "type": "number", "value": 0}}
    given = await answer_of(components, inputs=["a", "b"], variables=variables, first=["first"])
    assert given == "4 b"


async def test_body_nodes_can_be_read_behind_the_region() -> None:
    components = {**iteration({"row": text(script="<{ii@item}>")}, {}), **out("{row@result} {ii@index}")}
    assert await answer_of(components, inputs=["a", "b"]) == "<b> 1"


async def test_messages_in_a_body_are_shown_round_by_round() -> None:
    body = {"say": node("Message", {"content": ["{ii@item};"]}), "t": text()}
    body["say"]["downstream"] = ["t"]
    assert await answer_of({**iteration(body, {}), **out("end")}, inputs=["a", "b"]) == "a;b;end"


async def test_a_cycle_in_a_body_runs_until_it_is_left() -> None:
    body = {
        "add": text(["keep"], "{lp@s}x"),
        "keep": assign("lp@s", "add@result", downstream=["sw"]),
        "sw": node(
            "Switch",
            {
                "conditions": [{"items": [{"cpn_id": "lp@s", "operator": "end with", "value": "xxx"}], "to": ["ok"]}],
                "end_cpn_ids": ["add"],
            },
        ),
        "ok": text(),
    }
    assert await answer_of({**loop(body, count=1, variables={"s": ""}), **out("{lp@s}")}) == "xxx"
