"""Data types of the algebra, with the text Spark's ``simpleString`` gives them.

Nullability is not part of a type here: every column may be null. Types Spark has and this
module does not know by structure are kept by their text as ``OtherType``; nothing computes on
them, they only pass through.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from whence.errors import ParseError


@dataclass(frozen=True, slots=True)
class AtomicType:
    """A type without parts, such as ``bigint``."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class DecimalType:
    """An exact number of ``precision`` digits, ``scale`` of them after the point."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class ArrayType:
    """A list of values of one type."""

    element: DataType

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True, slots=True)
class MapType:
    """A mapping from keys of one type to values of another."""

    key: DataType
    value: DataType

    def __str__(self) -> str:
        return f"map<{self.key},{self.value}>"


@dataclass(frozen=True, slots=True)
class Field:
    """A named column of a schema, or a named member of a struct."""

    name: str
    type: DataType

    def __str__(self) -> str:
        return f"{quote_name(self.name)} {self.type}"


@dataclass(frozen=True, slots=True)
class StructType:
    """A tuple of named values."""

    fields: tuple[Field, ...]

    def __str__(self) -> str:
        members = ",".join(f"{quote_name(f.name)}:{f.type}" for f in self.fields)
        return f"struct<{members}>"


@dataclass(frozen=True, slots=True)
class OtherType:
    """A type known only by its text."""

    text: str

    def __str__(self) -> str:
        return self.text


DataType = AtomicType | DecimalType | ArrayType | MapType | StructType | OtherType
Schema = tuple[Field, ...]

VOID = AtomicType("void")
BOOLEAN = AtomicType("boolean")
TINYINT = AtomicType("tinyint")
SMALLINT = AtomicType("smallint")
INT = AtomicType("int")
BIGINT = AtomicType("bigint")
FLOAT = AtomicType("float")
DOUBLE = AtomicType("double")
STRING = AtomicType("string")
BINARY = AtomicType("binary")
DATE = AtomicType("date")
TIMESTAMP = AtomicType("timestamp")
TIMESTAMP_NTZ = AtomicType("timestamp_ntz")
INTERVAL = AtomicType("interval day to second")

ATOMIC_TYPES: dict[str, AtomicType] = {
    t.name: t
    for t in (
        VOID, BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, STRING, BINARY, DATE,
        TIMESTAMP, TIMESTAMP_NTZ, INTERVAL,
    )
}  # fmt: skip
ALIASES = {
    "bool": BOOLEAN, "byte": TINYINT, "short": SMALLINT, "integer": INT, "long": BIGINT,
    "real": FLOAT, "str": STRING, "timestamp_ltz": TIMESTAMP, "null": VOID, "interval": INTERVAL,
}  # fmt: skip

INTEGERS = (TINYINT, SMALLINT, INT, BIGINT)
FRACTIONS = (FLOAT, DOUBLE)
WINDOW = StructType((Field("start", TIMESTAMP), Field("end", TIMESTAMP)))
"""The type of an event-time window column."""

PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def quote_name(name: str) -> str:
    """A name as the text form writes it: in backticks unless it is a plain word."""
    return name if PLAIN_NAME.match(name) else "`" + name.replace("`", "``") + "`"


def is_numeric(type: DataType) -> bool:
    """Whether values of the type are numbers."""
    return type in INTEGERS or type in FRACTIONS or isinstance(type, DecimalType)


def is_orderable(type: DataType) -> bool:
    """Whether values of the type can be compared by ``<`` and grouped by."""
    match type:
        case AtomicType() | DecimalType():
            return True
        case ArrayType(element):
            return is_orderable(element)
        case StructType(fields):
            return all(is_orderable(f.type) for f in fields)
        case _:
            return False


def parse_type(text: str) -> DataType:
    """The type a text such as ``array<struct<a:int>>`` names.

    >>> str(parse_type("struct<start:timestamp,end: timestamp>"))
    'struct<start:timestamp,end:timestamp>'
    """
    parser = _TypeParser(text)
    result = parser.type()
    if parser.rest.strip():
        parser.fail("the end of the type")
    return result


class _TypeParser:
    """A cursor over the text of one type."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.rest = text

    def fail(self, expected: str) -> None:
        raise ParseError(
            f"malformed type {self.text!r}",
            detail=f"expected {expected} at {self.rest.strip()[:20]!r}",
            hint="write types as Spark prints them, for example bigint or array<struct<a:int>>",
        )

    def take(self, symbol: str) -> bool:
        rest = self.rest.lstrip()
        if rest.startswith(symbol):
            self.rest = rest[len(symbol) :]
            return True
        return False

    def need(self, symbol: str) -> None:
        if not self.take(symbol):
            self.fail(repr(symbol))

    def name(self) -> str:
        rest = self.rest.lstrip()
        if found := re.match(r"`((?:[^`]|``)*)`", rest):
            self.rest = rest[found.end() :]
            return found.group(1).replace("``", "`")
        found = re.match(r"[^\s:<>,()`]+", rest)
        if found is None:
            self.fail("a name")
            raise AssertionError
        self.rest = rest[found.end() :]
        return found.group()

    def number(self) -> int:
        rest = self.rest.lstrip()
        found = re.match(r"\d+", rest)
        if found is None:
            self.fail("a number")
            raise AssertionError
        self.rest = rest[found.end() :]
        return int(found.group())

    def type(self) -> DataType:
        rest = self.rest.lstrip()
        if found := re.match(r"interval day to second\b", rest, re.IGNORECASE):
            self.rest = rest[found.end() :]
            return INTERVAL
        if found := re.match(r"interval [a-z]+( to [a-z]+)?\b", rest, re.IGNORECASE):
            self.rest = rest[found.end() :]
            return OtherType(found.group().lower())
        word = self.name()
        lowered = word.lower()
        match lowered:
            case "array":
                self.need("<")
                element = self.type()
                self.need(">")
                return ArrayType(element)
            case "map":
                self.need("<")
                key = self.type()
                self.need(",")
                value = self.type()
                self.need(">")
                return MapType(key, value)
            case "struct":
                return self.struct()
            case "decimal" | "numeric" | "dec":
                if not self.take("("):
                    return DecimalType(10, 0)
                precision = self.number()
                scale = self.number() if self.take(",") else 0
                self.need(")")
                return DecimalType(precision, scale)
            case _ if lowered in ATOMIC_TYPES:
                return ATOMIC_TYPES[lowered]
            case _ if lowered in ALIASES:
                return ALIASES[lowered]
        text = word
        if self.take("("):  # char(3), varchar(10), string collations and what may come
            inside, _, self.rest = self.rest.partition(")")
            text += f"({inside})"
        return OtherType(text)

    def struct(self) -> StructType:
        self.need("<")
        fields: list[Field] = []
        while not self.take(">"):
            if fields:
                self.need(",")
            name = self.name()
            self.need(":")
            fields.append(Field(name, self.type()))
        return StructType(tuple(fields))
