from tests.fakes.canvas import switch
from tests.fakes.regions import answer_of, assign, iteration, loop, node, out, play_run, runner_of, text


async def test_it_leaves_the_enclosing_loop_and_preserves_the_variables() -> None:
    body = {
        "add": text(["keep"], "{lp@s}x"),
        "keep": assign("lp@s", "add@result", downstream=["sw"]),
        "sw": switch(["bye"], ["on"], "end with", "lp@s"),
        "bye": node("ExitLoop"),
        "on": text(),
    }
    body["sw"]["obj"]["params"]["conditions"][0]["items"][0]["value"] = "xxx"
    assert await answer_of({**loop(body, count=9, variables={"s": ""}), **out("{lp@s}")}) == "xxx"


async def test_it_stops_other_branches_of_the_round() -> None:
    body = {"a": text(["bye", "b"]), "bye": node("ExitLoop"), "b": text(["c"]), "c": text()}
    _, events = await play_run(runner_of({**loop(body), **out("x")}).start("s", {"query": "q"}))
    assert "+b" in events
    assert "+c" not in events
    assert events[-3:] == ["-lp", "+out", "-out"]


async def test_in_an_iteration_it_only_ends_the_round() -> None:
    body = {"row": text(["bye"], "{ii@item}"), "bye": node("ExitLoop")}
    assert await answer_of({**iteration(body, {"r": "row@result"}), **out("{it@r}")}, inputs=["a", "b"]) == ["a", "b"]
