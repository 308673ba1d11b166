from checkpoints.owner import this_process
from checkpoints.serializer import plain_serializer


def test_objects_come_back_as_data() -> None:
    serializer = plain_serializer()
    value = serializer.loads_typed(serializer.dumps_typed({"owner": this_process()}))
    assert isinstance(value["owner"], dict)
