"""The portable subset, scalar functions: how DuckDB writes each so that it means what Spark means.

One entry for each function of ``plan.functions`` that DuckDB can compute value by value as Spark 4
does in ANSI mode, with the kinds of argument for which that holds. What is not here is not
portable. Where the two agree on some values only, the SQL itself looks: it ends with ``outside``
for a value the subset does not cover (Spark then answers) and with ``fault`` for one that is an
error in Spark too. ``aggregates`` and ``casts`` hold the other two tables.

Both engines agree without help on: nulls, NaN (equal to itself, larger than all else), -0.0 (equal
to 0.0), order of strings (by UTF-8 bytes) and of binaries, overflow of ``+ - *`` on integers (an
error), overflow of floats (infinite).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from whence.duck.text import duck_type, literal, refusal, string
from whence.plan.expressions import Literal
from whence.plan.types import (
    DOUBLE,
    FLOAT,
    INTEGERS,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    ArrayType,
    AtomicType,
    DataType,
    DecimalType,
    MapType,
    StructType,
)

FAULT = "whence-fault:"
OUTSIDE = "whence-outside:"
"""What errors raised by generated SQL start with: no value in Spark either; not in the subset."""


@dataclass(frozen=True, slots=True)
class Operands:
    """The arguments of a call, as SQL, with what is known of them; ``where`` names the step."""

    sql: tuple[str, ...]
    types: tuple[DataType, ...]
    constants: tuple[Literal | None, ...]
    result: DataType
    where: str


Writer = Callable[[Operands], str]


@dataclass(frozen=True, slots=True)
class Entry:
    """How DuckDB writes a function, for which kinds of argument, and what had to be minded.

    ``sql`` is a template over the arguments (``{0}``, ``{1}``) or a function. ``strict``: null as
    soon as one argument is null. ``zoned``: on timestamps it reads the session's time zone.
    """

    name: str
    takes: tuple[str, ...]
    sql: str | Writer
    note: str = ""
    strict: bool = True
    zoned: bool = False

    def write(self, operands: Operands) -> str:
        """The call as SQL."""
        return self.sql.format(*operands.sql) if isinstance(self.sql, str) else self.sql(operands)


ATOMIC = ("boolean", "integer", "float", "decimal", "string", "binary", "date", "timestamp", "interval")
NESTED = (*ATOMIC, "array", "struct")
ANYTHING = (*NESTED, "map", "other")


def kind_of_type(type: DataType) -> str:
    """The word by which entries say which types they take."""
    match type:
        case AtomicType(name):
            if type in INTEGERS:
                return "integer"
            words = {"double": "float", "timestamp_ntz": "timestamp", "interval day to second": "interval"}
            return words.get(name, name)
        case DecimalType():
            return "decimal"
        case ArrayType():
            return "array"
        case StructType():
            return "struct"
        case MapType():
            return "map"
        case _:
            return "other"


def is_taken(type: DataType, takes: tuple[str, ...]) -> bool:
    """Whether a type, and all types inside it, are among the kinds an entry takes."""
    if type == VOID or takes == ANYTHING:
        return True
    inside: tuple[DataType, ...] = ()
    if isinstance(type, ArrayType):
        inside = (type.element,)
    elif isinstance(type, StructType):
        inside = tuple(f.type for f in type.fields)
    return kind_of_type(type) in takes and all(is_taken(t, NESTED) for t in inside)


def fault(message: str, where: str) -> str:
    """SQL that ends the query: the value is an error in Spark too."""
    return f"error({string(f'{FAULT}{where}: {message}')})"


def outside(message: str, where: str) -> str:
    """SQL that ends the query: Spark has a value here and DuckDB another."""
    return f"error({string(f'{OUTSIDE}{where}: {message}')})"


TIMESTAMP_RANGE = (-(2**63) + 14_454_775_808, 2**63 - 2)
"""The microseconds since 1970 that DuckDB takes for a time; Spark takes every bigint."""


def within(sql: str, low: int, high: int, value: str, where: str) -> str:
    """The value where a number is in a range; DuckDB has none beyond it, Spark may have."""
    beyond = outside("a time beyond what DuckDB can hold", where)
    return f"CASE WHEN {sql} BETWEEN {low} AND {high} THEN {value} WHEN {sql} IS NOT NULL THEN {beyond} END"


def clock(sql: str, type: DataType) -> str:
    """A time without zone that shows a timestamp's UTC clock; dates stay."""
    # Through the microseconds, because AT TIME ZONE goes through ICU.
    return f"make_timestamp(epoch_us({sql}))" if type == TIMESTAMP else sql


def timestamp_of(micros: str, type: DataType) -> str:
    """A timestamp from microseconds since 1970."""
    return f"make_timestamp({micros})" if type == TIMESTAMP_NTZ else f"make_timestamptz({micros})"


def _plus_minus(sign: str) -> Writer:
    def write(o: Operands) -> str:
        if o.types[0] in (TIMESTAMP, TIMESTAMP_NTZ):
            return timestamp_of(f"(epoch_us({o.sql[0]}) {sign} {o.sql[1]})", o.types[0])
        return f"({o.sql[0]} {sign} {o.sql[1]})"

    return write


def _dividing(operation: str) -> Writer:
    def write(o: Operands) -> str:
        a, b = o.sql
        divisor = o.constants[1]
        # DuckDB refuses the smallest integer % -1 as an overflow; Java says 0.
        careful = operation == "%" and o.types[1] in INTEGERS
        if divisor is not None and divisor.value is not None and divisor.value not in (0, -1):
            return f"({a} {operation} {b})"
        cases = f"WHEN {b} = 0 AND {a} IS NOT NULL THEN {fault(f'division by zero in {operation}', o.where)} "
        if careful:
            cases += f"WHEN {b} = -1 AND {a} IS NOT NULL THEN {literal(0, o.types[1])} "
        return f"CASE {cases}ELSE {a} {operation} {b} END"

    return write


def _negative(o: Operands) -> str:
    # DuckDB's own minus makes 128 of the tinyint -128.
    return f"({literal(0, o.types[0])} - {o.sql[0]})" if o.types[0] in INTEGERS else f"(- {o.sql[0]})"


def _rounding(function: str) -> Writer:
    def write(o: Operands) -> str:
        x = o.sql[0]
        return f"CASE WHEN isnan({x}) THEN 0 ELSE CAST({function}({x}) AS BIGINT) END"

    return write


def _joined(symbol: str) -> Writer:
    return lambda o: "(" + f" {symbol} ".join(o.sql) + ")"


def _in(o: Operands) -> str:
    # For longer lists Spark looks numbers up in a hash set, which tells -0.0 from 0.0.
    if kind_of_type(o.types[0]) == "float" and len(o.sql) > 11:
        raise refusal(f"{o.where}: in with more than 10 floats is not portable", "Spark tells -0.0 from 0.0 there")
    return f"({o.sql[0]} IN ({', '.join(o.sql[1:])}))"


def _listed(function: str) -> Writer:
    return lambda o: f"{function}({', '.join(o.sql)})"


def _extreme(function: str) -> Writer:
    def write(o: Operands) -> str:
        if o.result != FLOAT:
            return _listed(function)(o)
        # For floats DuckDB makes 0.0 of -0.0 here, for doubles it does not.
        return f"CAST({function}({', '.join(f'CAST({a} AS DOUBLE)' for a in o.sql)}) AS FLOAT)"

    return write


# Letters whose upper and lower case are one character and the same in Java (with ICU), DuckDB and
# all Unicode versions since 5.2, and scripts without case. Not there: sharp s, n with apostrophe,
# Turkish i, Greek (final sigma), ligatures.
_CASED = (
    r"\x{0}-\x{7F}\x{80}-\x{DE}\x{E0}-\x{12F}\x{132}-\x{148}\x{14A}-\x{17F}\x{400}-\x{482}\x{48A}-\x{4FF}"
    r"\x{5D0}-\x{5EA}\x{621}-\x{64A}\x{905}-\x{939}\x{E01}-\x{E30}"
    r"\x{2010}-\x{2027}\x{2030}-\x{205E}\x{20A0}-\x{20B5}\x{3001}-\x{303F}\x{3041}-\x{3096}"
    r"\x{30A1}-\x{30FA}\x{4E00}-\x{9FA5}\x{AC00}-\x{D7A3}\x{FF01}-\x{FF0F}"
)
CASED = f"[{_CASED}]*"


def _case(function: str) -> Writer:
    def write(o: Operands) -> str:
        x = o.sql[0]
        message = outside(f"{function} of letters that change by other rules in Java", o.where)
        return (
            f"CASE WHEN regexp_full_match({x}, {string(CASED)}) THEN {function}({x}) "
            f"WHEN {x} IS NOT NULL THEN {message} END"
        )

    return write


def _substring(o: Operands) -> str:
    text, position, length = o.sql
    p, n = (None if c is None else c.value for c in o.constants[1:])
    if isinstance(p, int) and isinstance(n, int) and p >= 0:
        return f"substring({text}, {max(p, 1)}, {max(n, 0)})"
    start = (
        f"CASE WHEN {position} > 0 THEN {position} - 1 WHEN {position} < 0 THEN length({text}) + {position} ELSE 0 END"
    )
    start = f"CAST({start} AS BIGINT)"
    return (
        f"CASE WHEN {position} IS NOT NULL AND {length} IS NOT NULL THEN "
        f"substring({text}, greatest({start}, 0) + 1, "
        f"greatest({start} + greatest({length}, 0) - greatest({start}, 0), 0)) END"
    )


_PATTERN = re.compile(r"(?:[^\\]|\\[\\%_])*", re.DOTALL)


def _like(o: Operands) -> str:
    text, pattern = o.sql
    constant = o.constants[1]
    if constant is not None and isinstance(constant.value, str):
        if _PATTERN.fullmatch(constant.value) is None:
            raise refusal(
                f"{o.where}: like with the malformed pattern {constant.value!r} is not portable",
                "a backslash stands before %, _ or another backslash only",
            )
        # Without escape DuckDB turns simple patterns into prefix tests, which reach the scan.
        escape = r" ESCAPE '\'" if "\\" in constant.value else ""
        return f"({text} LIKE {pattern}{escape})"
    well_formed = f"regexp_full_match({pattern}, {string('(?s)' + _PATTERN.pattern)})"
    malformed = fault("malformed like pattern", o.where)
    return (
        f"CASE WHEN {text} IS NULL OR {pattern} IS NULL THEN NULL WHEN {well_formed} "
        rf"THEN {text} LIKE {pattern} ESCAPE '\' ELSE {malformed} END"
    )


def _time_part(function: str) -> Writer:
    return lambda o: f"CAST({function}({clock(o.sql[0], o.types[0])}) AS INTEGER)"


def _timestamp_micros(o: Operands) -> str:
    return within(o.sql[0], *TIMESTAMP_RANGE, timestamp_of(o.sql[0], TIMESTAMP), o.where)


def _array_distinct(o: Operands) -> str:
    element = o.types[0].element if isinstance(o.types[0], ArrayType) else VOID
    array = o.sql[0]
    if element in (FLOAT, DOUBLE):
        # Spark makes 0.0 of -0.0 here, as in grouping.
        array = f"[CASE WHEN z = 0 THEN {literal(0.0, element)} ELSE z END FOR z IN {array}]"
    elif has_floats(element):
        raise refusal(
            f"{o.where}: array_distinct of a value of type {o.types[0]} is not portable",
            "Spark makes 0.0 of -0.0 inside its elements",
        )
    return f"list_filter({array}, LAMBDA x, i: list_position({array}, x) = i)"


def has_floats(type: DataType) -> bool:
    """Whether a value of the type may hold a float, so that zeros of two signs can be inside."""
    match type:
        case ArrayType(element):
            return has_floats(element)
        case StructType(fields):
            return any(has_floats(f.type) for f in fields)
        case MapType(key, value):
            return has_floats(key) or has_floats(value)
        case _:
            return type in (FLOAT, DOUBLE)


def _array_sort(o: Operands) -> str:
    element = o.types[0].element if isinstance(o.types[0], ArrayType) else VOID
    if not is_taken(element, ATOMIC):
        raise refusal(
            f"{o.where}: array_sort of a value of type {o.types[0]} is not portable",
            "nulls inside the elements come last in DuckDB",
        )
    return f"list_sort({o.sql[0]}, 'ASC', 'NULLS LAST')"


def _array(o: Operands) -> str:
    return f"CAST([{', '.join(o.sql)}] AS {duck_type(o.result)})"


def _array_concat(o: Operands) -> str:
    if len(o.sql) == 1:
        return o.sql[0]
    # DuckDB's list_concat takes a null for an empty list.
    missing = " OR ".join(f"{a} IS NULL" for a in o.sql)
    return f"CASE WHEN {missing} THEN NULL ELSE list_concat({', '.join(o.sql)}) END"


NUMBERS = ("integer", "float")
_NESTED_NOTE = "inside structs and arrays null equals null, in both engines"

FUNCTIONS: dict[str, Entry] = {
    e.name: e
    for e in (
        Entry("and", ("boolean",), _joined("AND"), strict=False),
        Entry("or", ("boolean",), _joined("OR"), strict=False),
        Entry("not", ("boolean",), "(NOT {0})"),
        Entry("=", NESTED, "({0} = {1})", _NESTED_NOTE),
        Entry("!=", NESTED, "({0} <> {1})", _NESTED_NOTE),
        Entry("<", ATOMIC, "({0} < {1})", "not structs and arrays: nulls inside come last in DuckDB"),
        Entry("<=", ATOMIC, "({0} <= {1})", "as <"),
        Entry(">", ATOMIC, "({0} > {1})", "as <"),
        Entry(">=", ATOMIC, "({0} >= {1})", "as <"),
        Entry("<=>", NESTED, "({0} IS NOT DISTINCT FROM {1})", "joins on it stay hash joins", strict=False),
        Entry("in", NESTED, _in, "at most 10 floats", strict=False),
        Entry("isnull", ANYTHING, "({0} IS NULL)", strict=False),
        Entry("isnotnull", ANYTHING, "({0} IS NOT NULL)", strict=False),
        Entry("isnan", ("float",), "coalesce(isnan({0}), FALSE)", "false for null", strict=False),
        Entry("coalesce", ANYTHING, _listed("coalesce"), strict=False),
        Entry("nullif", NESTED, "nullif({0}, {1})", strict=False),
        Entry("+", (*NUMBERS, "timestamp", "interval"), _plus_minus("+"), "times move by exact microseconds"),
        Entry("-", (*NUMBERS, "timestamp", "interval"), _plus_minus("-"), "times move by exact microseconds"),
        Entry("*", NUMBERS, "({0} * {1})"),
        Entry("/", ("float",), _dividing("/"), "an error where the divisor is 0, also for floats"),
        Entry("%", NUMBERS, _dividing("%"), "sign of the dividend; an error where the divisor is 0"),
        Entry("div", ("integer",), _dividing("//"), "towards zero; an error where the divisor is 0"),
        Entry("negative", NUMBERS, _negative),
        Entry("abs", NUMBERS, "abs({0})"),
        Entry("floor", ("float",), _rounding("floor"), "NaN gives 0, out of range is an error"),
        Entry("ceil", ("float",), _rounding("ceil"), "as floor"),
        Entry("sqrt", ("float",), "sqrt({0})", "NaN below 0"),
        Entry("greatest", ATOMIC, _extreme("greatest"), "nulls left out", strict=False),
        Entry("least", ATOMIC, _extreme("least"), "nulls left out", strict=False),
        Entry("upper", ("string",), _case("upper"), "letters of one upper case in all engines; not ß, ŉ, Greek"),
        Entry("lower", ("string",), _case("lower"), "letters of one lower case in all engines; not İ, Greek"),
        Entry("length", ("string",), "CAST(length({0}) AS INTEGER)", "in code points"),
        Entry("trim", ("string",), "trim({0}, ' ')", "spaces only"),
        Entry("ltrim", ("string",), "ltrim({0}, ' ')", "spaces only"),
        Entry("rtrim", ("string",), "rtrim({0}, ' ')", "spaces only"),
        Entry("concat", ("string",), _joined("||"), "null where one part is null"),
        Entry("substring", ("string", "integer"), _substring, "position 0 counts as 1, below 0 from the end"),
        Entry("replace", ("string",), "replace({0}, {1}, {2})"),
        Entry("like", ("string",), _like, "escape is the backslash; a malformed pattern is refused"),
        Entry("startswith", ("string",), "starts_with({0}, {1})"),
        Entry("endswith", ("string",), "ends_with({0}, {1})"),
        Entry("contains", ("string",), "contains({0}, {1})"),
        Entry("year", ("date", "timestamp"), _time_part("year"), zoned=True),
        Entry("month", ("date", "timestamp"), _time_part("month"), zoned=True),
        Entry("day", ("date", "timestamp"), _time_part("day"), zoned=True),
        Entry("hour", ("timestamp",), _time_part("hour"), zoned=True),
        Entry("minute", ("timestamp",), _time_part("minute"), zoned=True),
        Entry("second", ("timestamp",), _time_part("second"), "whole seconds", zoned=True),
        Entry("date_add", ("date", "integer"), "({0} + {1})"),
        Entry("datediff", ("date",), "CAST(({0} - {1}) AS INTEGER)"),
        Entry("unix_micros", ("timestamp",), "epoch_us({0})"),
        Entry("timestamp_micros", ("integer",), _timestamp_micros, "not the last hours of the bigints"),
        Entry("array", NESTED, _array, strict=False),
        Entry("array_compact", ("array",), "[x FOR x IN {0} IF x IS NOT NULL]"),
        Entry("array_distinct", ("array",), _array_distinct, "the first of each, in order; compares each pair"),
        Entry("array_concat", ("array",), _array_concat),
        Entry("array_sort", ("array",), _array_sort, "elements without parts"),
        Entry(
            "flatten",
            ("array",),
            "CASE WHEN len([x FOR x IN {0} IF x IS NULL]) = 0 THEN flatten({0}) END",
            "null where one array is null",
        ),
        Entry("size", ("array",), "CAST(len({0}) AS INTEGER)", "null for null"),
        Entry("sequence", ("integer",), "generate_series({0}, {1})", "empty where the first is larger"),
    )
}
