"""Mean ranks over streams, Friedman's test, and Nemenyi's critical difference.

A run that did not finish has a score of −∞, so it ranks last on its stream.

References
----------
[^1]: Demšar, J., 2006. Statistical comparisons of classifiers over multiple data sets. Journal of Machine
    Learning Research 7.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import friedmanchisquare, rankdata, studentized_range

SIGNIFICANCE = 0.05
Scores = Mapping[str, Mapping[str, float]]  # of peers, by stream; more is better


@dataclass(frozen=True)
class Ranking:
    """Mean ranks of the peers that were measured on every stream.

    Attributes
    ----------
    means
        Mean ranks, the best first; 1 is best, and equal scores share the mean of their ranks.
    finished
        Mean ranks over the streams that a peer finished.
    streams
        Number of streams.
    p
        Friedman's probability of such ranks if all peers were alike; 1 where fewer than three peers are left.
    difference
        Mean ranks that differ by more are different at a level of 5 % (Nemenyi).
    left_out
        Peers that were not measured on every stream.
    """

    means: dict[str, float]
    finished: dict[str, float]
    streams: int
    p: float
    difference: float
    left_out: list[str]


def critical_difference(peers: int, streams: int) -> float:
    """Return ``q √(k (k + 1) / 6N)`` for ``k`` peers on ``N`` streams.

    ``q`` is the quantile of the studentised range of ``k`` means, divided by √2.
    """
    q = studentized_range.ppf(1.0 - SIGNIFICANCE, peers, math.inf) / math.sqrt(2.0)
    return float(q * math.sqrt(peers * (peers + 1) / (6.0 * streams)))


def rank(scores: Scores) -> Ranking:
    """Rank peers by their scores on every stream that any of them has."""
    streams = sorted({stream for found in scores.values() for stream in found})
    whole = [peer for peer, found in scores.items() if streams and len(found) == len(streams)]
    table = np.array([[scores[peer][stream] for stream in streams] for peer in whole])
    table = table.reshape(len(whole), len(streams))
    places = rankdata(-table, axis=0) if whole else table
    means = dict(zip(whole, places.mean(axis=1).tolist(), strict=True)) if whole else {}
    done = np.isfinite(table)
    return Ranking(
        dict(sorted(means.items(), key=lambda pair: pair[1])),
        {peer: float(row[of].mean()) for peer, row, of in zip(whole, places, done, strict=True) if of.any()},
        len(streams),
        float(friedmanchisquare(*table).pvalue) if len(whole) > 2 and len(streams) > 1 else 1.0,
        critical_difference(len(whole), len(streams)) if len(whole) > 1 and streams else 0.0,
        [peer for peer in scores if peer not in whole],
    )


def place(scores: Scores, peer: str, stream: str) -> float:
    """Return the rank of a peer on a stream among those that were measured on it."""
    own = scores[peer][stream]
    others = [found[stream] for name, found in scores.items() if name != peer and stream in found]
    return 1.0 + sum(o > own for o in others) + 0.5 * sum(o == own for o in others)


def picture(rankings: Mapping[str, Ranking], path: Path) -> None:
    """Draw mean ranks, one panel a ranking; peers in the shaded band do not differ from the best one."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    columns = min(3, len(rankings))
    rows = math.ceil(len(rankings) / columns)
    height = 1.0 + 0.24 * max(len(ranking.means) for ranking in rankings.values())
    figure, panels = plt.subplots(
        rows, columns, figsize=(6.0 * columns, height * rows), layout="constrained", squeeze=False
    )
    for panel in panels.flat[len(rankings) :]:
        panel.set_axis_off()
    for panel, (title, ranking) in zip(panels.flat, rankings.items(), strict=False):
        names, means = list(ranking.means), list(ranking.means.values())
        colours = ["C3" if name.startswith("streamk") else "C0" for name in names]
        panel.axvspan(means[0], means[0] + ranking.difference, color="0.9", zorder=0)
        panel.hlines(range(len(means)), 1.0, means, color=colours, lw=1.0)
        panel.scatter(means, range(len(means)), color=colours, zorder=3)
        panel.set_yticks(range(len(means)), names, fontsize=8)
        panel.invert_yaxis()
        panel.set_xlim(1.0, None)
        panel.set_xlabel(
            f"mean rank on {ranking.streams} streams; critical difference {ranking.difference:.2f}"
        )
        panel.set_title(title, loc="left")
    figure.savefig(path, dpi=110)
    plt.close(figure)
