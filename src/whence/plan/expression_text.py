"""The text form of expressions and aggregates: printing, and the parser users' predicates go through.

Printing then parsing gives an equal expression. The parser takes a subset of Spark SQL and
nothing else; it checks no types (``resolve`` does) and never makes SQL of what it reads.
Opaque expressions are read only where the caller allows it, that is from a run's own plan.
"""

from __future__ import annotations

from typing import assert_never

from whence.plan import functions
from whence.plan.expressions import (
    Aggregate,
    AggregateCall,
    Call,
    Case,
    Cast,
    Column,
    Expression,
    Literal,
    Member,
    Opaque,
)
from whence.plan.literals import parse_duration, parse_number, parse_typed, print_literal
from whence.plan.tokens import Cursor
from whence.plan.types import (
    ATOMIC_TYPES,
    BOOLEAN,
    INTERVAL,
    STRING,
    VOID,
    DataType,
    parse_type,
    quote_name,
)

_INFIX = {"and", "or", "=", "!=", "<", "<=", ">", ">=", "<=>", "+", "-", "*", "/", "%", "div"}
RESERVED = frozenset(
    "and or not is null true false in like between case when then else end cast as div "
    "distinct filter where interval opaque on by from asc desc nulls".split()
)
"""Words a column of that name must be quoted in backticks to be read as a name."""


def print_name(name: str) -> str:
    """A column's name as the text form writes it."""
    return f"`{name}`" if name.lower() in RESERVED else quote_name(name)


def print_expression(expression: Expression) -> str:
    """The text of an expression.

    >>> print_expression(parse_expression("speed = 0 and not car is null"))
    '((speed = 0) and (not isnull(car)))'
    """
    match expression:
        case Column(name):
            return print_name(name)
        case Literal():
            return print_literal(expression)
        case Call(function, (left, right)) if function in _INFIX:
            return f"({print_expression(left)} {function} {print_expression(right)})"
        case Call("not", (child,)):
            return f"(not {print_expression(child)})"
        case Call("in", (value, *choices)):
            inside = ", ".join(print_expression(c) for c in choices)
            return f"({print_expression(value)} in ({inside}))"
        case Call(function, arguments):
            return f"{function}({', '.join(print_expression(a) for a in arguments)})"
        case Cast(child, type):
            return f"cast({print_expression(child)} as {type})"
        case Case(branches, otherwise):
            whens = " ".join(f"when {print_expression(w)} then {print_expression(t)}" for w, t in branches)
            return f"case {whens} else {print_expression(otherwise)} end"
        case Member(Literal() as child, name):  # a dot after a number would be part of it
            return f"({print_expression(child)}).{print_name(name)}"
        case Member(child, name):
            return f"{print_expression(child)}.{print_name(name)}"
        case Opaque():
            return _print_opaque(expression)
        case _:
            assert_never(expression)


def _print_opaque(opaque: Opaque) -> str:
    parts = [
        print_literal(Literal(opaque.key, STRING)),
        print_literal(Literal(opaque.text, STRING)) if opaque.text is not None else "null",
        print_literal(Literal(str(opaque.type), STRING)),
        "true" if opaque.deterministic else "false",
        *(print_expression(e) for e in opaque.inputs),
    ]
    return f"opaque({', '.join(parts)})"


def print_aggregate(aggregate: Aggregate) -> str:
    """The text of an aggregate, such as ``count(*)`` or ``sum(distinct x) filter (where y)``."""
    if isinstance(aggregate, Opaque):
        return _print_opaque(aggregate)
    inside = ", ".join(print_expression(a) for a in aggregate.arguments)
    if not aggregate.arguments and aggregate.function == "count":
        inside = "*"
    distinct = "distinct " if aggregate.distinct else ""
    text = f"{aggregate.function}({distinct}{inside})"
    if aggregate.filter is not None:
        text += f" filter (where {print_expression(aggregate.filter)})"
    return text


def parse_expression(text: str) -> Expression:
    """The expression a text writes; a ParseError names the place that does not fit."""
    cursor = Cursor(text)
    expression = read_expression(cursor)
    cursor.need_end()
    return expression


def parse_aggregate(text: str) -> Aggregate:
    """The aggregate a text writes."""
    cursor = Cursor(text)
    aggregate = read_aggregate(cursor)
    cursor.need_end()
    return aggregate


def read_expression(cursor: Cursor, *, opaque: bool = False) -> Expression:
    """Read one expression at the cursor."""
    return _Reader(cursor, opaque).disjunction()


def read_aggregate(cursor: Cursor, *, opaque: bool = False) -> Aggregate:
    """Read one aggregate at the cursor."""
    return _Reader(cursor, opaque).aggregate()


def read_type(cursor: Cursor) -> DataType:
    """Read one type at the cursor."""
    start = cursor.token.start
    depth, end = 0, start
    while cursor.token.kind != "end":
        token = cursor.token
        if token.text in ("<", "(") and token.kind == "symbol":
            depth += 1
        elif token.text == "<=>" or (depth == 0 and token.text in (",", ")", ";", "=")):
            break
        elif token.text in (">", ")") and token.kind == "symbol":
            depth -= 1
        elif depth == 0 and end > start and not _continues_type(cursor.text[start:end], token.text):
            break
        end = token.end
        cursor.advance()
    return parse_type(cursor.text[start:end])


def _continues_type(so_far: str, word: str) -> bool:
    """Whether a bare word belongs to the type before it, as in ``interval day to second``."""
    return so_far.lower().startswith("interval") and word.lower() in (
        "day", "to", "second", "year", "month", "hour", "minute",
    )  # fmt: skip


class _Reader:
    """Recursive descent over one expression, weakest operators first."""

    def __init__(self, cursor: Cursor, opaque: bool) -> None:
        self.cursor = cursor
        self.opaque_allowed = opaque

    def disjunction(self) -> Expression:
        left = self.conjunction()
        while self.cursor.take_word("or"):
            left = Call("or", (left, self.conjunction()))
        return left

    def conjunction(self) -> Expression:
        left = self.negation()
        while self.cursor.take_word("and"):
            left = Call("and", (left, self.negation()))
        return left

    def negation(self) -> Expression:
        if self.cursor.take_word("not"):
            return Call("not", (self.negation(),))
        return self.comparison()

    def comparison(self) -> Expression:
        left = self.addition()
        cursor = self.cursor
        while True:
            if symbol := cursor.take_symbol("=", "==", "!=", "<>", "<", "<=", ">", ">=", "<=>"):
                name = {"==": "=", "<>": "!="}.get(symbol, symbol)
                left = Call(name, (left, self.addition()))
            elif cursor.take_word("is"):
                left = self.is_test(left)
            elif cursor.at_word("not") and cursor.look().text.lower() in ("in", "like", "between"):
                cursor.advance()
                left = Call("not", (self.word_operator(left),))
            elif cursor.at_word("in", "like", "between"):
                left = self.word_operator(left)
            else:
                return left

    def is_test(self, value: Expression) -> Expression:
        negated = self.cursor.take_word("not") is not None
        if self.cursor.take_word("distinct"):
            self.cursor.need_word("from")
            same = Call("<=>", (value, self.addition()))
            return same if negated else Call("not", (same,))
        match self.cursor.need_word("null", "true", "false"):
            case "null":
                return Call("isnotnull" if negated else "isnull", (value,))
            case word:
                same = Call("<=>", (value, Literal(word == "true", BOOLEAN)))
                return Call("not", (same,)) if negated else same

    def word_operator(self, value: Expression) -> Expression:
        cursor = self.cursor
        match cursor.need_word("in", "like", "between"):
            case "in":
                cursor.need_symbol("(")
                return Call("in", (value, *self.arguments()))
            case "like":
                return Call("like", (value, self.addition()))
            case _:
                low = self.addition()
                cursor.need_word("and")
                high = self.addition()
                return Call("and", (Call(">=", (value, low)), Call("<=", (value, high))))

    def addition(self) -> Expression:
        left = self.multiplication()
        while symbol := self.cursor.take_symbol("+", "-", "||"):
            right = self.multiplication()
            left = Call("concat" if symbol == "||" else symbol, (left, right))
        return left

    def multiplication(self) -> Expression:
        left = self.sign()
        while symbol := self.cursor.take_symbol("*", "/", "%") or self.cursor.take_word("div"):
            left = Call(symbol, (left, self.sign()))
        return left

    def sign(self) -> Expression:
        if self.cursor.take_symbol("-"):
            if self.cursor.token.kind == "number":
                return self.members(parse_number(self.cursor.advance().text, negative=True))
            return Call("negative", (self.sign(),))
        self.cursor.take_symbol("+")
        return self.members(self.primary())

    def members(self, value: Expression) -> Expression:
        while self.cursor.take_symbol("."):
            value = Member(value, self.cursor.need_name("a member's name"))
        return value

    def primary(self) -> Expression:
        cursor = self.cursor
        token = cursor.token
        match token.kind:
            case "number":
                return parse_number(cursor.advance().text)
            case "string":
                return Literal(cursor.advance().text, STRING)
            case "name":
                return Column(cursor.advance().text)
            case "symbol" if cursor.take_symbol("("):
                inside = self.disjunction()
                cursor.need_symbol(")")
                return inside
            case "word":
                return self.word()
            case _:
                cursor.fail("a value")

    def word(self) -> Expression:
        cursor = self.cursor
        word = cursor.token.text.lower()
        following = cursor.look()
        match word:
            case "true" | "false":
                cursor.advance()
                return Literal(word == "true", BOOLEAN)
            case "null":
                cursor.advance()
                return Literal(None, VOID)
            case "case":
                return self.case()
            case "interval":
                return self.interval()
            case "cast" if following.text == "(":
                return self.cast()
            case "opaque" if following.text == "(" and self.opaque_allowed:
                return self.opaque()
            case "decimal" if following.text == "(" and cursor.look(5).text == ")":
                return self.typed(read_type(cursor))
            case _ if following.kind == "string" and word in ATOMIC_TYPES:
                return self.typed(read_type(cursor))
            case _ if following.kind == "symbol" and following.text == "(":
                return self.call(word)
            case _ if word in RESERVED:
                cursor.fail("a value (a column of this name needs backticks)")
            case _:
                return Column(cursor.advance().text)

    def call(self, word: str) -> Expression:
        cursor = self.cursor
        if word not in functions.FUNCTIONS and word not in ("if", "nvl", "ifnull", "date"):
            known = "an aggregate only fits into a group" if word in functions.AGGREGATES else ""
            cursor.fail("a known function (see docs/expressions.md)" + (f"; {known}" * bool(known)))
        cursor.advance()
        cursor.need_symbol("(")
        arguments = self.arguments()
        if word == "if" and len(arguments) == 3:
            return Case(((arguments[0], arguments[1]),), arguments[2])
        if word == "date" and len(arguments) == 1:
            return Cast(arguments[0], ATOMIC_TYPES["date"])
        return Call({"nvl": "coalesce", "ifnull": "coalesce"}.get(word, word), arguments)

    def arguments(self) -> tuple[Expression, ...]:
        arguments: list[Expression] = []
        while not self.cursor.take_symbol(")"):
            if arguments:
                self.cursor.need_symbol(",")
            arguments.append(self.disjunction())
        return tuple(arguments)

    def case(self) -> Expression:
        cursor = self.cursor
        cursor.advance()
        branches: list[tuple[Expression, Expression]] = []
        while cursor.take_word("when"):
            when = self.disjunction()
            cursor.need_word("then")
            branches.append((when, self.disjunction()))
        if not branches:
            cursor.fail("when")
        otherwise = self.disjunction() if cursor.take_word("else") else Literal(None, VOID)
        cursor.need_word("end")
        return Case(tuple(branches), otherwise)

    def cast(self) -> Expression:
        cursor = self.cursor
        cursor.advance()
        cursor.need_symbol("(")
        child = self.disjunction()
        cursor.need_word("as")
        type = read_type(cursor)
        cursor.need_symbol(")")
        null = Literal(None, VOID)
        return Literal(None, type) if child == null and type != VOID else Cast(child, type)

    def typed(self, type: DataType) -> Expression:
        return parse_typed(type, self.cursor.need_string())

    def interval(self) -> Expression:
        cursor = self.cursor
        cursor.advance()
        text = cursor.advance().text if cursor.token.kind in ("string", "number") else ""
        if cursor.token.kind == "word" and text.strip().lstrip("-").isdigit():
            text += " " + cursor.advance().text
        return parse_typed(INTERVAL, str(parse_duration(text)) + " microseconds")

    def opaque(self) -> Opaque:
        cursor = self.cursor
        cursor.advance()
        cursor.need_symbol("(")
        key = cursor.need_string()
        cursor.need_symbol(",")
        text = None if cursor.take_word("null") else cursor.need_string()
        cursor.need_symbol(",")
        type = parse_type(cursor.need_string())
        cursor.need_symbol(",")
        deterministic = cursor.need_word("true", "false") == "true"
        inputs: tuple[Expression, ...] = ()
        if cursor.take_symbol(","):
            inputs = self.arguments()
        else:
            cursor.need_symbol(")")
        return Opaque(key, inputs, type, deterministic, text)

    def aggregate(self) -> Aggregate:
        cursor = self.cursor
        if cursor.at_word("opaque") and cursor.look().text == "(" and self.opaque_allowed:
            return self.opaque()
        name = cursor.token.text.lower()
        if cursor.token.kind != "word" or (name not in functions.AGGREGATES and name not in functions.ANALYTIC):
            cursor.fail("an aggregate: " + ", ".join(functions.AGGREGATES))
        cursor.advance()
        cursor.need_symbol("(")
        distinct = cursor.take_word("distinct") is not None
        if cursor.take_symbol("*"):
            cursor.need_symbol(")")
            arguments: tuple[Expression, ...] = ()
        else:
            arguments = self.arguments()
        filter: Expression | None = None
        if cursor.at_word("filter") and cursor.look().text == "(":
            cursor.advance()
            cursor.need_symbol("(")
            cursor.need_word("where")
            filter = self.disjunction()
            cursor.need_symbol(")")
        return AggregateCall(name, arguments, distinct, filter)
