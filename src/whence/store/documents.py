"""Strict reading of the JSON files of a run: what is missing or of the wrong kind is named by file and key.

An `Entry` is one JSON object together with the file and the place it was found in; its methods hand out values of
exactly the type asked for and raise `BrokenRun` otherwise. Unknown keys are refused too: a later format announces
itself by its number, so within one format an unknown key is damage.

It knows nothing of runs, and it is deliberately not a general schema library: it has the dozen shapes that the
records of a run are made of.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from whence.errors import BrokenRun, NewerFormat

_Choice = TypeVar("_Choice", bound=str)

# Java's long: what Spark and DuckDB can hold.
SMALLEST_INTEGER, LARGEST_INTEGER = -(2**63), 2**63 - 1

RESTORE_HINT = "restore it from a copy of the run, or write the run again with overwrite=True"


@dataclass(frozen=True, slots=True)
class Entry:
    """One JSON object, with the file and the place in it that error messages name."""

    values: Mapping[str, object]
    file: str
    place: str = ""

    def key(self, name: str) -> str:
        """The full place of a key, as error messages spell it: `sources[1].kind`."""
        return f"{self.place}.{name}" if self.place else name

    def broken(self, name: str, problem: str) -> BrokenRun:
        return broken_file(self.file, f"key {self.key(name)} {problem}")

    def only(self, *names: str) -> None:
        """Refuse every key but these."""
        for name in self.values:
            if name not in names:
                raise self.broken(name, f"is not known here; known are {', '.join(names)}")

    def _value(self, name: str) -> object:
        if name not in self.values:
            raise self.broken(name, "is missing")
        return self.values[name]

    def text(self, name: str) -> str:
        return self._text(name, self._value(name))

    def optional_text(self, name: str) -> str | None:
        return None if self._value(name) is None else self.text(name)

    def flag(self, name: str) -> bool:
        value = self._value(name)
        if not isinstance(value, bool):
            raise self.broken(name, f"is {_shown(value)}, expected true or false")
        return value

    def integer(self, name: str, *, least: int = SMALLEST_INTEGER) -> int:
        return self._integer(name, self._value(name), least)

    def optional_integer(self, name: str, *, least: int = SMALLEST_INTEGER) -> int | None:
        return None if self._value(name) is None else self.integer(name, least=least)

    def choice(self, name: str, options: tuple[_Choice, ...]) -> _Choice:
        value = self._value(name)
        for option in options:
            if value == option:
                return option
        raise self.broken(name, f"is {_shown(value)}, expected one of {', '.join(options)}")

    def texts(self, name: str) -> tuple[str, ...]:
        return tuple(self._text(f"{name}[{i}]", value) for i, value in enumerate(self._list(name, self._value(name))))

    def entry(self, name: str) -> "Entry":
        return Entry(self._object(name, self._value(name)), self.file, self.key(name))

    def entries(self, name: str) -> "tuple[Entry, ...]":
        return self._entries(name, self._value(name))

    def groups(self, name: str) -> "dict[str, tuple[Entry, ...]]":
        """A JSON object whose values are lists of objects."""
        return {
            key: self._entries(f"{name}.{key}", value) for key, value in self._object(name, self._value(name)).items()
        }

    def text_mapping(self, name: str) -> dict[str, str]:
        return {key: self._text(f"{name}.{key}", value) for key, value in self._object(name, self._value(name)).items()}

    def integer_mapping(self, name: str) -> dict[str, int]:
        return {
            key: self._integer(f"{name}.{key}", value, SMALLEST_INTEGER)
            for key, value in self._object(name, self._value(name)).items()
        }

    def _entries(self, name: str, value: object) -> "tuple[Entry, ...]":
        return tuple(
            Entry(self._object(f"{name}[{i}]", item), self.file, self.key(f"{name}[{i}]"))
            for i, item in enumerate(self._list(name, value))
        )

    def _text(self, name: str, value: object) -> str:
        if not isinstance(value, str):
            raise self.broken(name, f"is {_shown(value)}, expected a text")
        return value

    def _integer(self, name: str, value: object, least: int) -> int:
        # bool is a subclass of int in Python, and true is no number.
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.broken(name, f"is {_shown(value)}, expected a whole number")
        if not least <= value <= LARGEST_INTEGER:
            raise self.broken(name, f"is {value}, expected a number from {least} to {LARGEST_INTEGER}")
        return value

    def _list(self, name: str, value: object) -> list[object]:
        if not isinstance(value, list):
            raise self.broken(name, f"is {_shown(value)}, expected a list")
        return value

    def _object(self, name: str, value: object) -> dict[str, object]:
        if not isinstance(value, dict):
            raise self.broken(name, f"is {_shown(value)}, expected an object")
        return value


def broken_file(file: str, problem: str, hint: str = RESTORE_HINT) -> BrokenRun:
    return BrokenRun("a file of the run is damaged", detail=f"{file}: {problem}", hint=hint)


def parse_document(text: str, file: str) -> Entry:
    """The JSON object that is all of `text`; `file` is what error messages call it.

    >>> parse_document('{"number": 12}', "epochs/000012.json").integer("number")
    12
    """
    try:
        value = json.loads(text, object_pairs_hook=_object_without_repeats, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise broken_file(file, f"it is no valid JSON ({error})") from error
    if not isinstance(value, dict):
        raise broken_file(file, f"it holds {_shown(value)}, expected an object")
    return Entry(value, file)


def parse_versioned(text: str, file: str, newest: int) -> Entry:
    """As `parse_document`, for a document that states its format, which must be known before anything else is read."""
    entry = parse_document(text, file)
    number = entry.integer("format", least=1)
    if number > newest:
        raise NewerFormat(
            f"the run has format {number}, this whence reads formats up to {newest}",
            detail=file,
            hint="open it with a newer whence: pip install --upgrade whence",
        )
    return entry


def format_document(values: Mapping[str, object]) -> str:
    """JSON text for a file. ASCII only, so that any text survives, file names that are no Unicode included."""
    return json.dumps(values, indent=1, allow_nan=False) + "\n"


def _object_without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has the same key twice")
    return found


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON")


def _shown(value: object) -> str:
    match value:
        case None:
            return "null"
        case dict():
            return "an object"
        case list():
            return "a list"
        case _:
            shown = json.dumps(value)
            return shown if len(shown) <= 60 else shown[:57] + "..."
