from tests.fakes.regions import loop, out, play_run, runner_of, text


async def test_it_starts_every_round_and_once_more_at_the_end() -> None:
    _, events = await play_run(runner_of({**loop({"x": text()}, count=1), **out("x")}).start("s", {"query": "q"}))
    assert events[2:-2] == ["+lp", "+li", "-li", "+x", "-x", "+li", "-li", "-lp"]
