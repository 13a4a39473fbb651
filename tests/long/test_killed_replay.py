"""A replay that is killed twenty times, at random moments between its checkpoints."""

import pytest

from tests.connectors.replay.test_checkpoint import disturbed_and_not


@pytest.mark.long
def test_twenty_kills_do_not_show(tmp_path):
    disturbed_and_not(tmp_path, 100_000, 20)
