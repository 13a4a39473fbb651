"""Vowpal Wabbit: plain, with products of inputs, with a hidden layer, and with coin betting."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from contest import Contestant, Peer, Setting, Standard, shares
from logs import CLASSES, NUMBERS, Stream

OPTIONS = "", "-q ::", "--nn 20", "--coin"


class Wabbit(Contestant):
    """One workspace; the target of a regression is standardised."""

    def __init__(self, stream: Stream, options: str, seed: int) -> None:
        import vowpalwabbit

        self._labels, self._target = stream.labels, Standard()
        if stream.task == NUMBERS:
            kind = ""
        elif len(self._labels) == 2:
            kind = "--loss_function logistic --link logistic"
        else:
            kind = f"--oaa {len(self._labels)} --probabilities --loss_function logistic"
        self._machine = vowpalwabbit.Workspace(f"{kind} {options} -b 18 --random_seed {seed} --quiet")

    def prepare(self, stream: Stream) -> list[str]:
        columns = []
        for name, values in stream.frame.items():
            clean = _clean(name)
            columns.append(
                [f"{clean}:{v:.7g}" if isinstance(v, float) else f"{clean}={_clean(v)}" for v in values]
            )
        return ["|f " + " ".join(fields) for fields in zip(*columns, strict=True)]

    def predict(self, x: str) -> Any:
        example = self._machine.example(x)
        found = self._say(example, self._target.mean, self._target.deviation)
        self._machine.finish_example(example)
        return found

    def learn(self, x: str, y: Any) -> None:
        example = self._machine.example(f"{self._code(y)} {x}")
        self._machine.learn(example)
        self._machine.finish_example(example)

    def answer(self, xs: list[Any], ys: list[Any]) -> list[Any]:
        """Parse each event once: predict it, then learn it."""
        answers = []
        for x, y in zip(xs, ys, strict=True):
            scale = self._target.mean, self._target.deviation
            example = self._machine.example(f"{self._code(y)} {x}")
            answers.append(self._say(example, *scale))
            self._machine.learn(example)
            self._machine.finish_example(example)
        return answers

    def _say(self, example: Any, mean: float, deviation: float) -> Any:
        found = self._machine.predict(example)
        if not self._labels:
            return mean + deviation * found
        if len(self._labels) == 2:
            return {self._labels[0]: found, self._labels[1]: 1.0 - found}
        return shares(self._labels, found)

    def _code(self, y: Any) -> str:
        if not self._labels:
            return f"{self._target.learn(y):.7g}"
        if len(self._labels) == 2:
            return "1" if y == self._labels[0] else "-1"
        return str(1 + self._labels.index(y))

    def size(self) -> int:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "model"
            self._machine.save(str(path))
            return path.stat().st_size


def _clean(text: Any) -> str:
    return str(text).strip().replace(":", "_").replace(" ", "_").replace("|", "_")


def _peer(options: str) -> Peer:
    def build(stream: Stream, setting: Setting) -> Contestant:
        return Wabbit(stream, options, setting.seed)

    return Peer(f"Vowpal Wabbit {options}".strip(), "vowpalwabbit", 40, build)


PEERS: dict[str, list[Peer]] = {task: [_peer(options) for options in OPTIONS] for task in (CLASSES, NUMBERS)}
