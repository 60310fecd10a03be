"""Cut text into tokens, for the parsers of expressions and plans. Nothing is understood here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal as OneOf
from typing import NoReturn

from whence.errors import ParseError

TokenKind = OneOf["word", "name", "string", "number", "symbol", "end"]

_PATTERN = re.compile(
    r"""(?P<space>\s+|--[^\n]*)
      |(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?:BD|[LSYDFlsydf])?(?![A-Za-z0-9_]))
      |(?P<word>[A-Za-z_][A-Za-z0-9_]*)
      |(?P<name>`(?:[^`]|``)*`)
      |(?P<string>'(?:[^']|'')*')
      |(?P<symbol><=>|<=|>=|<>|!=|==|\|\||[-+*/%=<>(),.:;])
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of text: its kind, its text (names and strings without quotes) and its place."""

    kind: TokenKind
    text: str
    start: int
    end: int


def tokenize(text: str) -> list[Token]:
    """The tokens of a text, with an end token last; a ParseError at what fits none."""
    tokens: list[Token] = []
    position = 0
    while position < len(text):
        found = _PATTERN.match(text, position)
        if found is None:
            raise ParseError(
                f"cannot read {text[position : position + 20]!r}",
                detail=place_of(text, position),
                hint="quote strings in '...' and unusual names in `...`",
            )
        kind = found.lastgroup
        piece = found.group()
        match kind:
            case "space":
                pass
            case "name":
                tokens.append(Token("name", piece[1:-1].replace("``", "`"), position, found.end()))
            case "string":
                tokens.append(Token("string", piece[1:-1].replace("''", "'"), position, found.end()))
            case "number":
                tokens.append(Token("number", piece, position, found.end()))
            case "word":
                tokens.append(Token("word", piece, position, found.end()))
            case _:
                tokens.append(Token("symbol", piece, position, found.end()))
        position = found.end()
    tokens.append(Token("end", "", len(text), len(text)))
    return tokens


def place_of(text: str, position: int) -> str:
    """Where in a text a position is, for messages."""
    line = text.count("\n", 0, position) + 1
    column = position - (text.rfind("\n", 0, position) + 1) + 1
    return f"at line {line}, column {column}" if "\n" in text.strip() else f"at column {column}"


class Cursor:
    """A place in a list of tokens, and the small steps every parser takes."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokenize(text)
        self.position = 0

    @property
    def token(self) -> Token:
        return self.tokens[self.position]

    def look(self, ahead: int = 1) -> Token:
        return self.tokens[min(self.position + ahead, len(self.tokens) - 1)]

    def advance(self) -> Token:
        token = self.token
        if token.kind != "end":
            self.position += 1
        return token

    def fail(self, expected: str) -> NoReturn:
        token = self.token
        found = "the end" if token.kind == "end" else repr(token.text)
        raise ParseError(
            f"cannot parse {shorten(self.text)!r}",
            detail=f"expected {expected}, found {found} {place_of(self.text, token.start)}",
            hint="see docs/expressions.md for the grammar",
        )

    def at_symbol(self, *symbols: str) -> bool:
        return self.token.kind == "symbol" and self.token.text in symbols

    def at_word(self, *words: str) -> bool:
        return self.token.kind == "word" and self.token.text.lower() in words

    def take_symbol(self, *symbols: str) -> str | None:
        return self.advance().text if self.at_symbol(*symbols) else None

    def take_word(self, *words: str) -> str | None:
        return self.advance().text.lower() if self.at_word(*words) else None

    def need_symbol(self, symbol: str) -> None:
        if not self.take_symbol(symbol):
            self.fail(repr(symbol))

    def need_word(self, *words: str) -> str:
        word = self.take_word(*words)
        if word is None:
            self.fail(" or ".join(words))
        return word

    def need_name(self, what: str = "a name") -> str:
        if self.token.kind not in ("word", "name"):
            self.fail(what)
        return self.advance().text

    def need_string(self, what: str = "a string in '...'") -> str:
        if self.token.kind != "string":
            self.fail(what)
        return self.advance().text

    def need_integer(self, what: str = "a whole number") -> int:
        sign = -1 if self.take_symbol("-") else 1
        if self.token.kind != "number" or not self.token.text.isdigit():
            self.fail(what)
        return sign * int(self.advance().text)

    def need_end(self) -> None:
        if self.token.kind != "end":
            self.fail("the end")


def shorten(text: str, length: int = 60) -> str:
    """A text cut to a length that fits into a message."""
    flat = " ".join(text.split())
    return flat if len(flat) <= length else flat[: length - 1] + "…"
