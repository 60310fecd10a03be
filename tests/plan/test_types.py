"""Types: their text, and what is no type."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.errors import ParseError
from whence.plan.types import (
    ATOMIC_TYPES,
    BIGINT,
    INT,
    STRING,
    ArrayType,
    DataType,
    DecimalType,
    Field,
    MapType,
    OtherType,
    StructType,
    is_numeric,
    is_orderable,
    parse_type,
)

NAMES = st.one_of(st.sampled_from(["a", "A b", "`", "a:b", "order", "ü", "<", "1"]), st.text(min_size=1, max_size=4))
LEAVES = st.one_of(
    st.sampled_from(list(ATOMIC_TYPES.values())),
    st.builds(lambda p, s: DecimalType(p, min(p, s)), st.integers(1, 38), st.integers(0, 38)),
    st.sampled_from([OtherType("varchar(10)"), OtherType("variant"), OtherType("interval year to month")]),
)


def nested(inner: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    fields = st.lists(st.builds(Field, NAMES, inner), max_size=3, unique_by=lambda f: f.name)
    return st.one_of(
        st.builds(ArrayType, inner), st.builds(MapType, inner, inner), fields.map(lambda f: StructType(tuple(f)))
    )


@given(st.recursive(LEAVES, nested, max_leaves=6))
def test_every_type_comes_back_from_its_text(type: DataType) -> None:
    assert parse_type(str(type)) == type


@pytest.mark.parametrize(
    ("text", "type"),
    [
        ("LONG", BIGINT), ("integer", INT), ("Array< int >", ArrayType(INT)), ("decimal", DecimalType(10, 0)),
        ("numeric(5)", DecimalType(5, 0)), ("struct<>", StructType(())),
        ("map<string, array<int>>", MapType(STRING, ArrayType(INT))),
        ("varchar(10)", OtherType("varchar(10)")), ("struct<`a b`: int>", StructType((Field("a b", INT),))),
    ],
)  # fmt: skip
def test_what_people_write(text: str, type: DataType) -> None:
    assert parse_type(text) == type


@pytest.mark.parametrize(
    "text", ["", "array<int", "array<>", "map<int>", "struct<a>", "struct<a:int", "decimal(", "int int"]
)
def test_malformed_types_show_how_to_write_one(text: str) -> None:
    with pytest.raises(ParseError, match="(?s)malformed type.*expected .*bigint or array<struct<a:int>>"):
        parse_type(text)


def test_what_can_be_compared() -> None:
    assert is_orderable(StructType((Field("a", ArrayType(INT)),))) and not is_orderable(ArrayType(MapType(INT, INT)))
    assert not is_orderable(OtherType("variant")) and is_numeric(DecimalType(3, 1)) and not is_numeric(STRING)
