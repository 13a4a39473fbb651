"""The names of learners and tasks, and the default seed.

Nothing of streamk is imported here, so that help and usage errors need no compiler.
"""

from __future__ import annotations

TASKS = ("classification", "regression")
NAMES = {  # what people write: how the names of its two classes begin
    "kernel": "Kernel",
    "kaczmarz": "Kaczmarz",
    "doubly-stochastic": "DoublyStochastic",
    "matching-pursuit": "MatchingPursuit",
    "subspace-pursuit": "SubspacePursuit",
    "kaczmarz-pursuit": "KaczmarzPursuit",
    "ls-svm": "LSSVM",
    "low-rank": "LowRankKernel",
    "eigenpro": "EigenPro",
}
DEFAULT = "kernel"  # nothing to tune
SEED = 0  # of every command and daemon, so that two runs agree and their models can be merged


def seed_line(seed: int | None, option: str = "--set seed=N") -> str:
    """Return the line that a command prints about its seed.

    >>> seed_line(0), seed_line(7), seed_line(None)
    ('seed 0; --set seed=N changes it', 'seed 7', 'seed none: a random seed, so no other run agrees')
    """
    if seed is None:
        return "seed none: a random seed, so no other run agrees"
    return f"seed {seed}; {option} changes it" if seed == SEED else f"seed {seed}"
