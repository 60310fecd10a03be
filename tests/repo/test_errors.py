"""Every error can be caught as WhenceError and as the builtin, and says statement, detail and hint in that order."""

import inspect
import pickle

import pytest

from whence import errors

KINDS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, errors.WhenceError) and kind is not errors.WhenceError
]


def test_there_are_errors() -> None:
    assert {"PlanError", "UnknownRow", "JavaMissing"} <= {kind.__name__ for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_each_error_is_a_whence_error_and_a_builtin(kind: type[errors.WhenceError]) -> None:
    builtins = [base for base in kind.__mro__ if base.__module__ == "builtins"]
    natural = set(builtins) - {Exception, BaseException, object}
    assert natural, f"{kind.__name__} derives from no builtin besides Exception"
    # str() of a KeyError is the repr() of its argument.
    assert KeyError not in natural
    assert kind.__doc__
    assert kind.__doc__ != errors.WhenceError.__doc__


@pytest.mark.parametrize("kind", KINDS)
def test_the_message_is_statement_detail_and_hint(kind: type[errors.WhenceError]) -> None:
    error = kind("no such row: 17", detail="the run has 12", hint="run.rows()")
    assert str(error) == "no such row: 17\nthe run has 12\nhint: run.rows()"
    assert (error.statement, error.detail, error.hint) == ("no such row: 17", "the run has 12", "run.rows()")
    with pytest.raises(errors.WhenceError):
        raise error


@pytest.mark.parametrize("kind", KINDS)
def test_parts_that_are_missing_leave_no_line(kind: type[errors.WhenceError]) -> None:
    assert str(kind("just this")) == "just this"
    assert str(kind("this", hint="that")) == "this\nhint: that"


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_survives_the_way_between_processes(kind: type[errors.WhenceError]) -> None:
    error = kind("a", detail="b", hint="c")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert str(copy) == str(error)
