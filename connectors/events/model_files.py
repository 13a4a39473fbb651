"""Model files of commands: a learner, and how its events were read."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from connectors.events.decoding import EventFormat
from connectors.events.learners import labels_of
from connectors.events.names import TASKS, nearest
from connectors.events.schema import NO_INPUT
from connectors.events.values import Fields
from streamk.learners.learner import Learner
from streamk.learners.loading import loads_with_extra

_KEYS = "target", "types", "ignore", "features", "missing", "dialect", "columns"
_DERIVED = re.compile(r"(@[a-z_]+(\.(sin|cos))?|#\d+)$")  # inputs of a date, and of words
_SHOWN = 10  # names in a sentence
Stored = Fields


class ModelFile(NamedTuple):
    """A model file: its path, the learner in it, and what it stores of the format of its events."""

    path: Path
    learner: Learner
    stored: Stored | None


def stored_of(format: EventFormat, inputs: Sequence[str] = ()) -> Stored:
    """Return what a model file stores of a format; ``inputs`` are the fields that were learned, if known."""
    values = {key: getattr(format, key) for key in _KEYS}
    plain = {
        key: dict(value) if isinstance(value, Mapping) else _plain(value) for key, value in values.items()
    }
    return {**plain, "inputs": list(inputs)}


def _plain(value: object) -> object:
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value


def save(learner: Learner, path: Path, stored: Stored | None) -> int:
    """Write a model file and return its size in bytes."""
    return learner.save(path, None if stored is None else {"format": stored})


def load(path: Path) -> ModelFile:
    """Return what is in a model file, or in a checkpoint of a daemon, which stores its settings.

    Raises
    ------
    ValueError
        If it is no model file.
    OSError
        If it cannot be read.
    """
    learner, extra = loads_with_extra(path.read_bytes(), str(path))
    return ModelFile(path, learner, stored_of_extra(extra))


def stored_of_extra(extra: object) -> Stored | None:
    """Return what a file says of the format of its events; None if that is nothing."""
    stored = extra.get("format", stored_of_checkpoint(extra)) if isinstance(extra, dict) else None
    return stored if isinstance(stored, dict) else None


def stored_of_checkpoint(extra: Fields) -> Stored | None:
    """Return how a daemon read its events, by what its checkpoint stores; None if that is nothing."""
    training, mark = extra.get("training"), extra.get("source_mark")
    if not isinstance(training, dict):
        return None
    inferred = mark.get("format") if isinstance(mark, dict) else None
    inferred = inferred if isinstance(inferred, dict) else {}
    stored = {
        "target": training.get("events.target"),
        "types": {**inferred.get("types", {}), **training.get("schema.types", {})},
        "ignore": [
            *training.get("events.ignore", ()),
            *filter(None, (training.get(f"events.{key}") for key in ("key", "time", "weight"))),
        ],
        "features": training.get("events.features"),
    }
    if "schema.missing" in training:
        stored["missing"] = training["schema.missing"]
    if inferred.get("delimiter") and inferred.get("decimal"):
        stored["dialect"] = [inferred["delimiter"], inferred["decimal"]]
    return stored


def with_stored(format: EventFormat, stored: Stored | None) -> EventFormat:
    """Return a format with the stored value of a model wherever it has a default."""
    if stored is None:
        return format
    plain = EventFormat()
    known = {
        key: stored[key] for key in _KEYS if key in stored and getattr(format, key) == getattr(plain, key)
    }
    return replace(format, **{**known, "types": {**stored.get("types", {}), **format.types}})


def task_of(models: Sequence[ModelFile]) -> str | None:
    """Return the task of the first model, None without any."""
    return next((TASKS[labels_of(model.learner) is None] for model in models), None)


def field_of(name: str) -> str:
    """Return the field of an input: of a date's calendar inputs and of words, the field that they come from.

    >>> field_of("when@weekday.sin"), field_of("note#12"), field_of("price")
    ('when', 'note', 'price')
    """
    return _DERIVED.sub("", name)


def inputs_of(model: ModelFile) -> list[str]:
    """Return the fields that a model has learned, as far as they are known."""
    _, learner, stored = model
    if stored is not None and stored.get("inputs"):
        return list(stored["inputs"])
    if stored is not None and stored.get("types"):
        gone = {stored.get("target"), *stored.get("ignore", ())}
        types = {name: kind for name, kind in stored["types"].items() if name not in gone}
        return [name for name, kind in types.items() if kind.partition(":")[0] not in NO_INPUT]
    return list(dict.fromkeys(field_of(name) for name in learner.number_names or ()))


@dataclass(frozen=True)
class LearnedFields:
    """The fields that a model has learned, which those of a log are compared with.

    Attributes
    ----------
    model
        How messages name it.
    inputs
        The fields that it has learned, as far as they are known.
    target
        The field that it predicts, empty if that is not known.
    read
        All fields that its file says how to read.
    """

    model: str
    inputs: Sequence[str]
    target: str = ""
    read: Collection[str] = ()

    @classmethod
    def of(cls, models: Sequence[ModelFile], target: str | None) -> LearnedFields:
        """Return the fields that models have learned."""
        inputs = dict.fromkeys(name for model in models for name in inputs_of(model))
        stored = [model.stored for model in models if model.stored is not None]
        read = {
            name for each in stored for key in ("types", "ignore", "features") for name in each.get(key) or ()
        }
        return cls(", ".join(str(model.path) for model in models), list(inputs), target or "", read)

    def compare(self, file: str, there: Sequence[str], new: Sequence[str], nested: bool = False) -> list[str]:
        """Return a sentence for what a file lacks, and for what it has more.

        Parameters
        ----------
        file
            How messages name it.
        there, new
            Its fields, and those of them that would be inputs.
        nested
            Whether fields may be those of objects, of which the first records may have others.

        Raises
        ------
        ValueError
            If it has none of the fields that the model has learned.

        Examples
        --------
        >>> LearnedFields("m.streamk", ["a", "b"], "y").compare("new.csv", ["a", "B", "Y"], ["a", "B", "Y"])
        ["new.csv has no field 'b' (did you mean 'B'?), which m.streamk has learned: it is missing", \
"new.csv has no field 'y' to score predictions with; did you mean 'Y'?"]
        """
        known = {_root(name) for name in there} if nested else set(there)
        lacking = [name for name in self.inputs if (_root(name) if nested else name) not in known]
        near = {name: nearest(name, set(new) - set(self.inputs)) for name in lacking}
        meant = _listed(
            [f"{name!r} (did you mean {near[name]!r}?)" if near[name] else repr(name) for name in lacking]
        )
        if self.inputs and len(lacking) == len(self.inputs):
            raise ValueError(
                f"{file} has none of the fields that {self.model} has learned: no {meant}; its fields are "
                f"{_listed(list(map(repr, there)))}"
            )
        sentences = []
        if lacking:
            which = ("which", "it is") if len(lacking) == 1 else ("all of which", "they are")
            sentences.append(
                f"{file} has no field {meant}, {which[0]} {self.model} has learned: {which[1]} missing"
            )
        learned = {_root(name) for name in self.inputs} if nested else set(self.inputs)
        more = [name for name in new if (_root(name) if nested else name) not in learned]
        other = nearest(self.target, more) if self.target and self.target not in there else ""
        more = [name for name in more if name not in (*near.values(), other)]
        if self.inputs and more:
            fields = "field" if len(more) == 1 else "fields"
            sentences.append(
                f"{file} has the {fields} {_listed(list(map(repr, more)))}, not learned by {self.model}"
            )
        if other:
            sentences.append(
                f"{file} has no field {self.target!r} to score predictions with; did you mean {other!r}?"
            )
        return sentences


def _root(name: str) -> str:
    return name.partition(".")[0]


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return (", ".join(names[:_SHOWN]) or "none") + more


def merged(models: Sequence[ModelFile]) -> Stored | None:
    """Return what the file of a merged model stores.

    Raises
    ------
    ValueError
        If two models read a field by different types; the sentence names both.
    """
    known = [(path, stored) for path, _, stored in models if stored is not None]
    if not known:
        return None
    first, whole = known[0]
    whole = {**whole, "types": dict(whole.get("types", {})), "inputs": list(whole.get("inputs", ()))}
    for path, stored in known[1:]:
        for name, kind in stored.get("types", {}).items():
            if (before := whole["types"].setdefault(name, kind)) != kind:
                raise ValueError(
                    f"{path} read the field {name!r} as {kind}, and {first} as {before}; "
                    f"train both with --type {name}=TYPE"
                )
        whole["inputs"] = list(dict.fromkeys([*whole["inputs"], *stored.get("inputs", ())]))
        if whole.get("dialect") != stored.get("dialect"):
            whole["dialect"] = None  # each file decides
    return whole


def require_common(models: Sequence[ModelFile]) -> None:
    """Raise a ValueError if models that have learned events have nothing to merge.

    These are models without a common field, and classifiers of other targets, or of labels of other types,
    without a common label. Models of one target may each have learned other labels, as those of a
    sorted log.
    """
    learned = [model for model in models if model.learner.events + model.learner.pending]
    fields = [(model.path, set(inputs_of(model))) for model in learned]
    if pair := _apart([each for each in fields if each[1]]):
        raise ValueError(_nothing_common("field", *pair))
    labels = [(model.path, set(labels_of(model.learner) or ())) for model in learned]
    targets = {model.stored["target"] for model in learned if model.stored and model.stored.get("target")}
    kinds = {type(label) is str for _, classes in labels for label in classes}
    if (len(targets) > 1 or len(kinds) > 1) and (pair := _apart([each for each in labels if each[1]])):
        raise ValueError(_nothing_common("label", *pair))


_Named = tuple[Path, Set[object]]


def _apart(groups: Sequence[_Named]) -> tuple[_Named, _Named] | None:
    """Return the first set, and one that no chain of sets with common elements connects with it."""
    if not groups:
        return None
    reached, left = set(groups[0][1]), list(groups[1:])
    while near := [group for group in left if group[1] & reached]:
        reached.update(*(names for _, names in near))
        left = [group for group in left if group not in near]
    return (groups[0], left[0]) if left else None


def _nothing_common(what: str, one: _Named, other: _Named) -> str:
    has = [f"{path} has {_listed(sorted(map(repr, names)))}" for path, names in (one, other)]
    return f"{one[0]} and {other[0]} have no {what} in common, and cannot be merged: {', and '.join(has)}"
