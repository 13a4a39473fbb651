"""Records of files of all formats, and the inferred types of their fields."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Protocol

import numpy as np

from connectors.events.batches import RecordBatch
from connectors.events.decoding import Decoder, EventFormat, is_total
from connectors.events.names import listed, suggestion
from connectors.events.schema import (
    CATEGORY,
    DATETIME,
    FEW_WORDS,
    IDENTIFIER,
    IGNORED,
    LOOK,
    NO_INPUT,
    NUMBER,
    TEXT,
    ColumnProfile,
    ColumnProfiles,
    describe,
    infer,
    parse_number,
    reader_of,
)
from connectors.events.values import Fields
from connectors.formats.lines import Lines
from connectors.formats.messagepack import MessagePackRecords
from connectors.formats.open_file import OpenFile
from connectors.formats.parquet import ParquetRecords

_CODE = re.compile(r"[A-Z]{2}")
_NAMED_MONTH = re.compile(
    r"(?:[^\W\d_]+[.,]*\s+)?\d{1,2}(?:\.|º|er)?[\s/-]*(?:de\s+|d['’])?(?P<month>[^\W\d_]{2,12})\.?[\s/,-]*"
    r"(?:del?\s+)?(?:(?:19|20)\d{2}|(?<=[-/.])\d{2})(?:\s.*)?"  # not: 3 Zimmer 75 qm
)
_MONTHS = 24  # different names at most, whole and short
_BEFORE, _NEARLY = 5, 1e-4  # records before one of totals, and error of rounded sums
_REPEATED, _DIFFERENT = 3, 0.9  # records that repeat the one before, and share of different ones
_LEAST, _EXACT = 20, 1e-9  # records in which a column may say what the target is, and error of a correlation
_NOTED = {
    DATETIME: "read as date or time",
    TEXT: "read as words",
    IDENTIFIER: "ignored: every row has a different value",
}


class Records(Protocol):
    """The records of an open file, in order.

    Attributes
    ----------
    format, decoder
        How they are read.
    position, line
        Of the next record; a position is a byte, or of Parquet a row.
    notes
        Sentences about what was read.
    share
        Which part of what was read of the file has been yielded; of Parquet, of the file.
    """

    format: EventFormat
    decoder: Decoder
    position: int
    line: int
    notes: list[str]

    @property
    def share(self) -> float:
        """Which part of what was read has been yielded, from 0 to 1."""

    def use(self, format: EventFormat) -> None:
        """Decode by this format from here on."""

    def first(self) -> list[Fields]:
        """Return the first records, as many as types are inferred from, without types; none is consumed."""

    def batches(self) -> Iterator[RecordBatch]:
        """Yield batches."""

    def seek(self, position: int, line: int = 0) -> None:
        """Read from this position on, before which there are so many lines."""


def records_of(file: OpenFile, format: EventFormat, before: str | None = None) -> Records:
    """Return the records of a file that was looked at.

    Parameters
    ----------
    file, format
        What to read, and which field is what.
    before
        The decimal mark of the file before it.

    Raises
    ------
    ValueError
        If it has no header, or no such column; the file is named.
    """
    try:
        if file.form == "parquet":
            return ParquetRecords(file, format)
        if file.form == "msgpack":
            return MessagePackRecords(file, format)
        return Lines(file, format, before)
    except ValueError as error:
        raise ValueError(f"{file.name}: {error}") from None


def columns_of(records: Records) -> ColumnProfiles:
    """Return what the first records of a file say of each of its fields, the target last."""
    format, first = records.format, records.first()
    decimal = records.decoder.format.decimal or "."
    values: dict[str, list[object]] = {}
    for fields in first:
        for name, value in fields.items():
            of_field = values.setdefault(name, [])
            if not records.decoder.is_missing(value):
                of_field.append(value)
    if records.decoder.form == "csv":
        _without_totals(values, decimal)
    order = sorted(values, key=lambda name: name == format.target)
    columns = [
        describe(name, values[name], len(first), format.types.get(name, ""), decimal) for name in order
    ]
    if columns and columns[-1].name == format.target:
        columns = [_with_leak(column, columns[-1], first, decimal) for column in columns]
    notes = [*_none(columns), *_codes(values, first), *_of_months(columns, values)]
    return ColumnProfiles(columns, [*notes, *_totals(columns, first, decimal), *_repeated(first)])


def _without_totals(values: dict[str, list[object]], decimal: str) -> None:
    """Drop the words of rows of totals from the values of the first column, if it has no words else."""
    for name in list(values)[:1]:
        kept = [value for value in values[name] if not is_total(str(value))]
        base = infer(name, kept, decimal).partition(":")[0] if len(kept) < len(values[name]) else ""
        if base in (NUMBER, DATETIME):
            values[name] = kept


def _none(columns: Sequence[ColumnProfile]) -> list[str]:
    """Return a sentence for each number that may stand for no value."""
    by_number: dict[float, list[str]] = {}
    for column in columns:
        for number in column.stand_ins:
            by_number.setdefault(number, []).append(column.name)
    return [
        f"{number:.10g} may stand for no value in {listed(names)}; --missing={number:.10g} makes it missing"
        for number, names in by_number.items()
    ]


def _codes(values: Mapping[str, Sequence[object]], first: Sequence[Fields]) -> list[str]:
    """Return a sentence for each column of two capital letters in which NA is missing."""
    names = [
        name
        for name, kept in values.items()
        if kept and all(isinstance(each, str) and _CODE.fullmatch(each) for each in kept)
        if "NA" not in kept and any(fields.get(name) == "NA" for fields in first)
    ]
    return [f"NA of {name} is read as missing; if it is a code, --missing=N/A keeps it" for name in names]


def _of_months(columns: Sequence[ColumnProfile], values: Mapping[str, Sequence[object]]) -> list[str]:
    """Return a sentence for each column of strings that seem to be dates with names of months."""
    notes = []
    for column in columns:
        if column.type.partition(":")[0] not in (CATEGORY, TEXT, IDENTIFIER) or column.distinct < 2:
            continue
        dates = [_NAMED_MONTH.fullmatch(str(each).strip()) for each in values[column.name]]
        months = {date["month"].lower() for date in dates if date}
        if sum(map(bool, dates)) >= _DIFFERENT * len(dates) and len(months) <= _MONTHS:
            notes.append(
                f"{column.name} seems to hold dates with names of months that are not English, as "
                f"{column.examples[0]!r}, and is no date; write the months as numbers, as 2026-03-31"
            )
    return notes


def _totals(columns: Sequence[ColumnProfile], first: Sequence[Fields], decimal: str) -> list[str]:
    """Return a sentence if the last record of a short log has the sums of those before it."""
    if not _BEFORE < len(first) < LOOK:
        return []
    last = {name: value for name, value in first[-1].items() if value is not None and str(value).strip()}
    types = {column.name: column.type for column in columns}
    for name, value in list(last.items())[:1]:
        if types[name].partition(":")[0] in (NUMBER, DATETIME) and is_total(str(value)):
            return []  # it is skipped
    sums, exceeds = list[str](), False
    for name in last:
        if types[name].partition(":")[0] != NUMBER:
            continue
        read = reader_of(types[name], decimal)
        *numbers, of_last = [_number(read(fields.get(name))) for fields in first]
        total = sum(numbers)
        if not abs(total - of_last) <= _NEARLY * abs(total):
            return []
        sums.append(name)
        exceeds |= abs(total) > max(map(abs, numbers))
    if not exceeds or len(sums) + len(types) - len(last) < 2:
        return []
    what = f"the last of the {len(first):,} records has the sums of {listed(sums)}"
    return [f"{what}; if it is a row of totals, delete it, since it is learned"]


def _number(value: object) -> float:
    return value if isinstance(value, int | float) else 0.0


def _with_leak(
    column: ColumnProfile, target: ColumnProfile, first: Sequence[Fields], decimal: str
) -> ColumnProfile:
    """Return the profile of a column with a warning if it is the target in other words or in another unit."""
    name, of, distinct = column.name, target.name, column.distinct
    few = column.values < max(_LEAST, _DIFFERENT * len(first))
    if name == of or distinct != target.distinct or distinct < 2 or few:
        return column
    pairs = [(fields[name], fields[of]) for fields in first if name in fields and of in fields]
    if len({(str(x), str(y)) for x, y in pairs}) != distinct:
        return column
    same = all(str(x) == str(y) for x, y in pairs)
    if not same and distinct > len(pairs) / 2 and not _is_linear(pairs, decimal):
        return column
    what = f"it has the values of {of}" if same else f"it says what {of} is"
    warning = f"{what} in each of the first records; if it is not known before, --ignore it"
    return column._replace(warning="; ".join(filter(None, (column.warning, warning))))


def _is_linear(pairs: Sequence[tuple[object, object]], decimal: str) -> bool:
    """Return whether one number is a linear function of the other."""
    numbers = [[parse_number(str(each), decimal) for each in pair] for pair in pairs]
    if any(None in pair for pair in numbers):
        return False
    x, y = np.array(numbers, dtype=np.float64).T
    return bool(abs(np.corrcoef(x, y)[0, 1]) > 1 - _EXACT)


def _repeated(first: Sequence[Fields]) -> list[str]:
    """Return a sentence if records repeat others, among records that are mostly different."""
    different = len({str(fields) for fields in first})
    least = max(_REPEATED, len(first) / 100)
    count, twice = sum(a == b for a, b in pairwise(first)), len(first) - different
    if least <= count <= len(first) / 2 and different >= _DIFFERENT * (len(first) - count):
        what = f"{count:,} of the first {len(first):,} records repeat the one before"
        return [f"{what}; such a record is predicted just after it was learned"]
    if least <= twice <= (1 - _DIFFERENT) * len(first):
        return [f"{twice:,} of the first {len(first):,} records are equal to an earlier one"]
    return []


def types_of(columns: Sequence[ColumnProfile], format: EventFormat) -> dict[str, str]:
    """Return the inferred types of columns: those of inputs, and number for the target if it is one."""
    gone = {*format.roles, *format.verbatim, *format.ignore}
    types = {column.name: column.type for column in columns if column.type and column.name not in gone}
    texts = [name for name, kind in types.items() if kind == TEXT and name != format.target]
    inputs = [name for name, kind in types.items() if kind not in NO_INPUT and name != format.target]
    if 2 * len(texts) <= len(inputs):  # each count costs accuracy until its relevance is known
        types |= dict.fromkeys(texts, f"{TEXT}:{FEW_WORDS}")
    types |= {column.name: IGNORED for column in columns if _is_nothing(column) and column.name not in gone}
    for column in columns:
        if column.name == format.target and column.type.partition(":")[0] == NUMBER:
            types[column.name] = column.type
    return {
        name: kind
        for name, kind in types.items()
        if name not in format.types or kind.startswith(f"{format.types[name]}:")
    }


def _is_nothing(column: ColumnProfile) -> bool:
    """Return whether a column has neither a name nor values, as one after a delimiter at the end of lines."""
    return not column.values and not column.name.strip().lstrip(".0123456789")


def with_inferred_types(records: Records) -> EventFormat:
    """Return the format of a log with the types that its first records have, and decode by it."""
    format = records.format.with_types(types_of(columns_of(records), records.format))
    records.use(format)
    return format


def missing_fields(
    columns: Sequence[ColumnProfile], format: EventFormat, stored: Collection[str] = ()
) -> list[str]:
    """Return a sentence for every field that the settings name and the first records do not have.

    ``stored`` are names that a model file gives.
    """
    known = [column.name for column in columns]
    named = [*format.types, *format.ignore, *format.sources]
    return [
        f"no field {name!r} in the first records{suggestion(name, known)}"
        for name in dict.fromkeys(named)
        if name not in stored and not _is_there(name, known)
    ]


def _is_there(name: str, known: Sequence[str]) -> bool:
    return name in known or any(column.startswith(f"{name}.") for column in known)


def require_inputs(columns: Sequence[ColumnProfile], format: EventFormat) -> None:
    """Raise a ValueError if inputs are named, and the first records have none of them."""
    known, named = [column.name for column in columns], format.sources
    if named and known and not any(_is_there(name, known) for name in named):
        raise ValueError(
            f"none of the inputs that are named is a field of the first records: no field {named[0]!r}"
            f"{suggestion(named[0], known)}"
        )


def noted(columns: Sequence[ColumnProfile], format: EventFormat) -> list[str]:
    """Return sentences about columns that are not read as plain numbers and categories."""
    by_type: dict[str, list[str]] = {}
    for column in columns:
        base = format.types.get(column.name, "").partition(":")[0]
        configured = column.name in format.ignore or column.name in format.roles
        if base in _NOTED and not configured:
            by_type.setdefault(base, []).append(column.name)
    notes = [f"{_NOTED[base]}: {listed(names)}; --type changes that" for base, names in by_type.items()]
    parts = [(column.name, column.type.partition(":")) for column in columns]
    units = [f"{name} ({unit})" for name, (kind, colon, unit) in parts if kind == NUMBER and colon]
    notes += [f"read as numbers with a unit: {listed(units)}; --type changes that"] if units else []
    if empty := sum(map(_is_nothing, columns)):
        notes.append(f"ignored, since they have neither a name nor values: {empty} columns")
    return notes
