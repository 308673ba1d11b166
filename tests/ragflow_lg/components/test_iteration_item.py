from tests.fakes.regions import iteration, out, play_run, runner_of, text


async def test_it_starts_every_round_and_once_more_at_the_end() -> None:
    components = {**iteration({"row": text()}, {"r": "row@result"}), **out("{ii@item}{ii@index}{ii@result}")}
    answer, events = await play_run(runner_of(components).start("s", {"inputs": {"items": {"value": ["a", "b"]}}}))
    assert answer == "b1b"
    round_ = ["+ii", "-ii", "+row", "-row"]
    assert events[2:-2] == ["+it", *round_, *round_, "+ii", "-ii", "-it"]
