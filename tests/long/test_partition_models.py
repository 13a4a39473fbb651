"""Three daemons, eight models of partitions: 20 leave and join again, 20 are killed (``make long``)."""

import pytest

from ..kafka.conftest import broker, servers, stand  # noqa: F401 (fixtures)
from ..kafka.partition_models import check, churn, topics
from ..kafka.stand import events
from ..kafka.test_kills import Traffic

pytestmark = pytest.mark.long


@pytest.mark.parametrize("seed", [8, 21])
def test_every_event_is_in_one_model_once(stand, seed):  # noqa: F811
    topics(stand, 8)
    traffic = Traffic(lambda part, at: stand.send_often(part, lambda i: (at + i) % 8), 800)
    running, done = churn(stand, "abc", traffic, 20, 20, seed)
    assert (done["leave"], done["kill"], done["join"]) == (20, 20, 40)
    check(stand, running, events(200_000)[: traffic.count], 8)
