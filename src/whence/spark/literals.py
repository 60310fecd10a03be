"""Constants: from Catalyst's internal form to plan literals and back. What Python cannot hold exactly stays opaque."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass, field
from decimal import Decimal

from whence.plan.expressions import Literal
from whence.plan.literals import micros_of
from whence.plan.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    FRACTIONS,
    INT,
    INTEGERS,
    INTERVAL,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    OtherType,
    StructType,
)
from whence.spark.jvm import EXPRESSIONS, JavaObject, Jvm, simple_name
from whence.spark.types import to_json

_EPOCH = dt.datetime(1970, 1, 1)


def literal_of(java: JavaObject, type: DataType) -> Literal | None:
    """The plan literal of a Catalyst literal, or None where plans have no such constant."""
    value = java.value()
    if isinstance(type, OtherType):
        return None
    if value is None:
        return Literal(None, type)
    try:
        converted = _converted(value, type)
    except OverflowError:  # years that Python does not have
        return None
    return None if converted is None else Literal(converted, type)


def _converted(value: JavaObject, type: DataType) -> object:
    if type == BOOLEAN:
        return bool(value)
    if type in INTEGERS:
        return int(value)
    if type in FRACTIONS:
        return float(value)
    if type == STRING:
        return str(value.toString())
    if type == BINARY:
        return bytes(value)
    if type == DATE:
        return _EPOCH.date() + dt.timedelta(days=value)
    if type == TIMESTAMP:
        return (_EPOCH + dt.timedelta(microseconds=value)).replace(tzinfo=dt.UTC)
    if type == TIMESTAMP_NTZ:
        return _EPOCH + dt.timedelta(microseconds=value)
    if type == INTERVAL:
        return dt.timedelta(microseconds=value)
    if isinstance(type, DecimalType):
        return Decimal(value.toString())
    return None


def interval_of(java: JavaObject) -> Literal | None:
    """The constant of a day-time interval of whatever fields, perhaps negated; None for anything else."""
    sign = 1
    while simple_name(java) == "UnaryMinus":
        java, sign = java.child(), -sign
    if simple_name(java) != "Literal" or simple_name(java.dataType()) != "DayTimeIntervalType":
        return None
    value = java.value()
    if value is None:
        return None
    try:
        return Literal(dt.timedelta(microseconds=sign * value), INTERVAL)
    except OverflowError:
        return None


@dataclass(frozen=True, slots=True)
class Literals:
    """Makes Catalyst constants and types. py4j turns a small Java long into an int, so most go over as text."""

    jvm: Jvm
    _types: dict[DataType, JavaObject] = field(default_factory=dict)
    _shared: dict[str, JavaObject] = field(default_factory=dict)

    @property
    def utc(self) -> JavaObject:
        """The time zone of all times, as Catalyst takes it."""
        if "utc" not in self._shared:
            self._shared["utc"] = self.jvm.some("UTC")
        return self._shared["utc"]

    @property
    def ansi_mode(self) -> JavaObject:
        """What makes casts fail where there is no value."""
        if "ansi" not in self._shared:
            self._shared["ansi"] = self.jvm.type(EXPRESSIONS + "EvalMode").ANSI()
        return self._shared["ansi"]

    def java_type(self, type: DataType) -> JavaObject:
        """The Catalyst type of a plan type."""
        found = self._types.get(type)
        if found is None:
            reader = self.jvm.type("org.apache.spark.sql.types.DataType")
            found = self._types[type] = reader.fromJson(json.dumps(to_json(type)))
        return found

    def of(self, literal: Literal) -> JavaObject:
        """The Catalyst constant of a plan literal."""
        value, type = literal.value, literal.type
        java = self.java_type(type)
        make = self.jvm.type(EXPRESSIONS + "Literal")
        if value is None or type in (BOOLEAN, INT, DOUBLE, BINARY, VOID):
            return make(value if type != DOUBLE or value is None else float(str(value)), java)
        match type:
            case t if t == BIGINT:
                return make.fromSQL(f"{value}L")
            case t if t == STRING:
                return make.create(value, java)
            case t if t == DATE:
                assert isinstance(value, dt.date)
                return make((value - _EPOCH.date()).days, java)
            case t if t in (TINYINT, SMALLINT):
                return self._cast(make(value, self.java_type(INT)), java)
            case t if t == FLOAT:
                assert isinstance(value, float)
                return self._cast(make(value, self.java_type(DOUBLE)), java)
            case ArrayType(element):
                parts = [self.of(Literal(v, element)) for v in _sequence(value)]
                made = self.jvm.construct(EXPRESSIONS + "CreateArray", self.jvm.seq(parts), False)
                return self._cast(made, java)
            case MapType(key, item):
                pairs = [
                    self.of(Literal(v, t))
                    for pair in _sequence(value)
                    for v, t in zip(_sequence(pair), (key, item), strict=True)
                ]
                return self._cast(self.jvm.construct(EXPRESSIONS + "CreateMap", self.jvm.seq(pairs), False), java)
            case StructType(fields):
                named = [
                    self.of(part)
                    for f, v in zip(fields, _sequence(value), strict=True)
                    for part in (Literal(f.name, STRING), Literal(v, f.type))
                ]
                return self.jvm.expression("CreateNamedStruct", self.jvm.seq(named))
            case _:
                return self._cast(make.create(_text(value), self.java_type(STRING)), java)

    def _cast(self, java: JavaObject, type: JavaObject) -> JavaObject:
        return self.jvm.expression("Cast", java, type, self.utc, self.ansi_mode)


def _sequence(value: object) -> tuple[object, ...]:
    assert isinstance(value, tuple | list)
    return tuple(value)


def _text(value: object) -> str:
    """What Spark casts to the value: a time in UTC, an interval, a decimal."""
    match value:
        case dt.datetime():
            return value.replace(tzinfo=None).isoformat(sep=" ") + ("Z" if value.tzinfo else "")
        case dt.timedelta():
            micros = micros_of(value)
            seconds, fraction = divmod(abs(micros), 1_000_000)
            hours, rest = divmod(seconds, 3600)
            sign = "-" if micros < 0 else ""
            clock = f"{hours % 24:02d}:{rest // 60:02d}:{rest % 60:02d}.{fraction:06d}"
            return f"INTERVAL '{sign}{hours // 24} {clock}' DAY TO SECOND"
        case _:
            return str(value)
