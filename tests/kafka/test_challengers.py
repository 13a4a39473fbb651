"""A challenger survives kills with its model: learned once, compared once."""

import json

from connectors.state.checkpoint import CHALLENGER, COMPARED

from .stand import SHORT, events

TABLE = '\n[[challengers]]\nname = "wide"\nlearner = "kaczmarz"\nparameters = {features = 128}\n'


def run(stand, name, group, kills=0):
    """Run a daemon to the end of the topic, killed on the way; return the parts of the checkpoint."""
    path = stand.settings(
        name, kafka__session_seconds=SHORT, checkpoints__events=300, checkpoints__seconds=0.2,
        source__group=group, predictions=None, dead_letters=None,
    )  # fmt: skip
    path.write_text(path.read_text() + TABLE)
    daemon = stand.start(path)
    for kill in range(kills):
        daemon.until(lambda kill=kill: (kept := stand.checkpoint(name)) and read(kept) > 1000 * kill)
        daemon.kill()
        stand.send(events(700, 10 + kill))
        daemon = stand.start(path)
    end = stand.end()
    daemon.until(lambda: (kept := stand.checkpoint(name)) and read(kept) == end)
    assert daemon.stop() == 0, daemon.text()[-3000:]
    return stand.checkpoint(name).parts


def read(checkpoint):
    return sum(progress.position for progress in checkpoint.partitions.values())


def test_a_challenger_and_its_comparison_survive_kills(stand):
    stand.topics(1)
    stand.send(events(3000))
    found = run(stand, "killed", f"{stand.name}-killed", kills=3)
    wanted = run(stand, "undisturbed", f"{stand.name}-undisturbed")
    names = ["model", f"{CHALLENGER}wide", f"{CHALLENGER}wide{COMPARED}"]
    assert [found[name] for name in names] == [wanted[name] for name in names]
    assert json.loads(found[names[2]])["blocks"] == 51
