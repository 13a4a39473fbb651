"""Records whose schema is in a registry: a zero byte, the number of the schema, then Avro or JSON.

This is the wire format of registries with the interface of Confluent's. JSON needs no schema to be read. Avro
is read by the schema that wrote it, which is requested once.
"""

from __future__ import annotations

import base64
import ssl
import struct
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from datetime import date, time
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import NamedTuple, cast
from urllib.parse import quote
from uuid import UUID

import msgspec

from connectors.contract.errors import DENIED, USAGE, BrokerUnavailable, Failure
from connectors.events.decoding import Parse
from streamk.arrays import Json

_SECONDS = 10.0  # for an answer
_HEADER = struct.Struct(">bI")


class SchemaRegistry(NamedTuple):
    """Where schemas are, and how to log in.

    Attributes
    ----------
    url
        Its address.
    username, password
        Of HTTP basic authentication; none if the name is empty.
    ca
        The authority that signed its certificate; one that the system trusts if None.
    """

    url: str
    username: str = ""
    password: str = ""
    ca: Path | None = None

    def get(self, path: str) -> Json | None:
        """Return what is at a path, None if there is nothing.

        Raises
        ------
        BrokerUnavailable
            If the registry does not answer.
        Failure
            If it refuses the credentials.
        """
        request = urllib.request.Request(f"{self.url.rstrip('/')}/{path}")
        if self.username:
            pair = base64.b64encode(f"{self.username}:{self.password}".encode()).decode()
            request.add_header("Authorization", f"Basic {pair}")
        context = ssl.create_default_context(cafile=self.ca) if self.url.startswith("https:") else None
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS, context=context) as answer:
                stored: Json = msgspec.json.decode(answer.read())
                return stored
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            if error.code in (401, 403):
                raise Failure(DENIED, f"registry.url: {self.url} refuses registry.username") from None
            raise BrokerUnavailable(f"registry.url: {self.url} answers {error.code} {error.reason}") from None
        except (OSError, ValueError) as error:
            raise BrokerUnavailable(f"registry.url: {self.url} does not answer: {error}") from None

    def parser(self, form: str) -> Parse:
        """Return what reads the bytes of records.

        Parameters
        ----------
        form
            ``"json"`` or ``"avro"``.

        Raises
        ------
        Failure
            If Avro cannot be read without fastavro.
        """
        decode = _Avro(self) if form == "avro" else lambda number, body: msgspec.json.decode(body)

        def parse(value: bytes) -> object:
            if len(value) < _HEADER.size or value[0]:
                raise ValueError("it does not begin with the number of a schema")
            return decode(_HEADER.unpack_from(value)[1], memoryview(value)[_HEADER.size :])

        return parse


class _Avro:
    """Reads Avro by the numbers of schemas."""

    def __init__(self, registry: SchemaRegistry) -> None:
        try:
            from fastavro import schemaless_reader
            from fastavro.schema import SchemaParseException, parse_schema
        except ImportError:
            raise Failure(USAGE, "events.format: avro needs fastavro; pip install 'streamk[avro]'") from None
        self._read, self._parse, self._unparsable = schemaless_reader, parse_schema, SchemaParseException
        self._registry = registry
        self._schemas: dict[int, Json] = {}

    def __call__(self, number: int, body: memoryview) -> object:
        if number not in self._schemas:
            self._schemas[number] = self._requested(number)
        data = BytesIO(body)
        try:
            value = self._read(data, self._schemas[number])
        except (EOFError, IndexError, KeyError, OverflowError, TypeError) as error:
            raise ValueError(f"it is not of schema {number}: {error or 'it ends early'}") from None
        if data.read(1):
            raise ValueError(f"it is not of schema {number}: bytes are left over")
        return plain(value)

    def _requested(self, number: int) -> Json:
        answer = self._registry.get(f"schemas/ids/{number}")
        if answer is None:
            raise ValueError(f"schema {number} is not in the registry {self._registry.url}")
        if (kind := answer.get("schemaType", "AVRO")) != "AVRO":
            raise ValueError(f"schema {number} is {kind}, and events.format is avro")
        try:
            return self._parsed(answer, {})
        except (self._unparsable, ValueError, KeyError) as error:
            raise ValueError(f"schema {number} cannot be used: {error}") from None

    def _parsed(self, answer: Json, named: dict[str, Json]) -> Json:
        """Return a schema after those that it refers to, whose types are then in ``named``."""
        for reference in answer.get("references") or ():
            subject = quote(reference["subject"], safe="")
            other = self._registry.get(f"subjects/{subject}/versions/{reference['version']}")
            if other is None:
                raise ValueError(f"{reference['subject']} {reference['version']} is not in the registry")
            self._parsed(other, named)
        parsed = self._parse(msgspec.json.decode(answer["schema"]), named)
        return cast(Json, parsed)


_AS_JSON: Mapping[type, Callable[..., object]] = {Decimal: float, UUID: str}


def plain(value: object) -> object:
    """Return a value of Avro as JSON would have it: times in ISO 8601, decimals as numbers.

    >>> plain({"at": date(2026, 11, 29), "price": Decimal("2.50"), "tags": ["a"]})
    {'at': '2026-11-29', 'price': 2.5, 'tags': ['a']}
    """
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return list(map(plain, value))
    if isinstance(value, date | time):
        return value.isoformat()
    convert = _AS_JSON.get(type(value))
    return value if convert is None else convert(value)
