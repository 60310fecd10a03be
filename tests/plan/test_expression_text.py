"""Expressions as text: printing and parsing agree, precedence is SQL's, and mistakes are shown where they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.errors import ParseError
from whence.plan.expression_text import (
    RESERVED,
    parse_aggregate,
    parse_expression,
    print_aggregate,
    print_expression,
    read_expression,
)
from whence.plan.expressions import AggregateCall, Call, Case, Cast, Column, Expression, Literal, Member, Opaque
from whence.plan.functions import FUNCTIONS
from whence.plan.tokens import Cursor
from whence.plan.types import BIGINT, BOOLEAN, INT, STRING, ArrayType, DecimalType

NAMES = st.one_of(
    st.sampled_from(
        ["a", "B", "a b", "`", "order", "not", "opaque", "count", "ü", "1a", "a.b", "--", "x~2", "null", "''"]
    ),
    st.text(min_size=1, max_size=5),
    st.sampled_from(sorted(RESERVED)),
)
LEAVES = st.one_of(
    st.builds(Column, NAMES),
    st.builds(Literal, st.integers(-5, 5), st.sampled_from([INT, BIGINT])),
    st.builds(Literal, st.text(max_size=4), st.just(STRING)),
    st.builds(Literal, st.one_of(st.none(), st.booleans()), st.just(BOOLEAN)),
)
CALLS = [f for f in FUNCTIONS.values() if f.most is None or f.most > 0]
KEYS = st.text(max_size=4)


def nested(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    def call(function: object) -> st.SearchStrategy[Expression]:
        least, most = function.least, function.most  # type: ignore[attr-defined]
        arguments = st.lists(inner, min_size=max(least, 1), max_size=most if most is not None else max(least, 1) + 1)
        return arguments.map(lambda a: Call(function.name, tuple(a)))  # type: ignore[attr-defined]

    types = st.sampled_from([INT, STRING, DecimalType(5, 2), ArrayType(BIGINT)])
    # cast(null as t) is the null of that type.
    return st.one_of(
        st.sampled_from(CALLS).flatmap(call),
        st.builds(Cast, inner, types),
        st.builds(Member, inner, NAMES),
        st.builds(lambda w, t, o: Case(((w, t),), o), inner, inner, inner),
        st.builds(
            Opaque, KEYS, st.lists(inner, max_size=2).map(tuple), types, st.booleans(), st.one_of(st.none(), KEYS)
        ),
    )


EXPRESSIONS = st.recursive(LEAVES, nested, max_leaves=8)


@given(EXPRESSIONS)
def test_every_expression_comes_back_from_its_text(expression: Expression) -> None:
    cursor = Cursor(print_expression(expression))
    assert read_expression(cursor, opaque=True) == expression
    cursor.need_end()


@given(st.builds(AggregateCall, st.sampled_from(["sum", "count", "min"]), st.tuples(LEAVES), st.booleans(),
                 st.one_of(st.none(), LEAVES)))  # fmt: skip
def test_every_aggregate_comes_back_from_its_text(aggregate: AggregateCall) -> None:
    assert parse_aggregate(print_aggregate(aggregate)) == aggregate


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("a or b and not c", "(a or (b and (not c)))"),
        ("not a = b", "(not (a = b))"),
        ("a + b * c - d", "((a + (b * c)) - d)"),
        ("-a + b", "(negative(a) + b)"),
        ("- 5 + +3", "(-5 + 3)"),
        ("a - -5", "(a - -5)"),
        ("a || b || c", "concat(concat(a, b), c)"),
        ("a == b <> c", "((a = b) != c)"),
        ("a between 1 and 2 and b", "(((a >= 1) and (a <= 2)) and b)"),
        ("a not between 1 and 2", "(not ((a >= 1) and (a <= 2)))"),
        ("a is not null", "isnotnull(a)"),
        ("a is true", "(a <=> true)"),
        ("a is not distinct from b", "(a <=> b)"),
        ("a is distinct from b", "(not (a <=> b))"),
        ("a not in (1, 2)", "(not (a in (1, 2)))"),
        ("a like 'x%'", "like(a, 'x%')"),
        ("if(a, 1, 2)", "case when a then 1 else 2 end"),
        ("nvl(a, b)", "coalesce(a, b)"),
        ("case when a then 1 end", "case when a then 1 else null end"),
        ("w.end", "w.`end`"),
        ("`a b`.c", "`a b`.c"),
        ("a -- a comment\n + 1", "(a + 1)"),
        ("7 div 2 % 3", "((7 div 2) % 3)"),
    ],
)
def test_precedence_and_other_spellings(text: str, printed: str) -> None:
    assert print_expression(parse_expression(text)) == printed
    assert print_expression(parse_expression(printed)) == printed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("speed =", "expected a value, found the end at column 8"),
        ("speed = = 3", "expected a value, found '=' at column 9"),
        ("(a", r"expected '\)', found the end"),
        ("a b", "expected the end, found 'b' at column 3"),
        ("a in 3", r"expected '\(', found '3'"),
        ("case else 1 end", "expected when, found 'else'"),
        ("case when a 1 end", "expected then, found '1'"),
        ("from = 1", "needs backticks"),
        ("frob(a)", "a known function .*found 'frob'"),
        ("sum(a) > 3", "an aggregate only fits into a group"),
        ("a\nand\n(b", "at line 3"),
        ("opaque('k', null, 'int', true)", "a known function|a value"),
        ("a is 3", "null or true or false"),
        ("", "expected a value, found the end"),
    ],
)
def test_mistakes_are_shown_where_they_are(text: str, expected: str) -> None:
    with pytest.raises(ParseError, match=f"(?s){expected}") as failed:
        parse_expression(text)
    assert "hint" in str(failed.value)


@pytest.mark.parametrize("text", ["a = 'it", 'a = "x"', "a & b", "a = `x"])
def test_what_fits_no_token_says_how_to_quote(text: str) -> None:
    with pytest.raises(ParseError, match="(?s)cannot read.*quote strings in"):
        parse_expression(text)


@pytest.mark.parametrize("text", ["frob(a)", "a", "sum", "sum(a) over", "3"])
def test_what_is_no_aggregate_lists_them(text: str) -> None:
    with pytest.raises(ParseError, match="(?s)an aggregate: count, sum|expected the end|expected '\\('"):
        parse_aggregate(text)
