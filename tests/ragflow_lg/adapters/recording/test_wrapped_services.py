from pathlib import Path

from ragflow_lg.adapters.recording.cassette import CassetteWriter, ExchangeLine, read_cassette
from ragflow_lg.adapters.recording.player import Player
from ragflow_lg.adapters.recording.recorder import Recorder
from ragflow_lg.dsl.redaction import Redactor
from ragflow_lg.services.http import HttpRequest, HttpResponse
from ragflow_lg.services.services import Caller, Services
from ragflow_lg.services.tool_policies import ToolPolicies
from tests.fakes.services import CountedIds, FixedClock, NamedFiles, ScriptedHttp, fake_services

REQUEST = HttpRequest("GET", "http://x")


def services_of(services: Services, *callers: Caller) -> Services:
    """Return the services of a caller inside other callers, the outermost first."""
    for caller in callers:
        assert services.for_caller is not None
        services = services.for_caller(caller)
    return services


async def test_an_exchange_belongs_to_its_caller_inside_other_callers(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    callers = (Caller("Canvas:N", "2/1.1"), Caller("LLM:A", "0"))
    with CassetteWriter(file) as writer:
        http = ScriptedHttp({"http://x": HttpResponse(200, {}, "hello", "http://x")})
        await services_of(Recorder(writer, Redactor()).wrap(fake_services(http=http)), *callers).http.send(REQUEST)
    (line,) = [line for _, line in read_cassette(file) if isinstance(line, ExchangeLine)]
    assert (line.node, line.position) == ("Canvas:N/LLM:A", "2/1.1>0")
    player = Player(file, Redactor())
    replayed = player.services(NamedFiles(), FixedClock(), CountedIds(), ToolPolicies())
    assert (await services_of(replayed, *callers).http.send(REQUEST)).text == "hello"


def test_services_without_datasets_have_none_when_recorded(tmp_path: Path) -> None:
    with CassetteWriter(tmp_path / "r.jsonl") as writer:
        assert Recorder(writer, Redactor()).wrap(fake_services()).knowledge is None


def test_dates_and_seeds_are_replayed_and_then_new(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    with CassetteWriter(file) as writer:
        services = Recorder(writer, Redactor()).wrap(fake_services(ids=CountedIds(seed=5)))
        recorded = services.clock.local_time(), services.ids.seed()
    replayed = Player(file, Redactor()).services(NamedFiles(), FixedClock(), CountedIds(seed=7), ToolPolicies())
    assert (replayed.clock.local_time(), replayed.ids.seed()) == recorded
    assert replayed.ids.seed() == 7
