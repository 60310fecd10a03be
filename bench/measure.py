"""Measurements: cases run in turns within one process, then medians, ratios and their spread.

Turns cancel what drifts (caches, clock rates, a busy neighbour): a ratio is that of two cases of the same round, and
the median over the rounds is reported. This module measures nothing itself, and keeps no results.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median, quantiles
from typing import TypeVar

T = TypeVar("T")

# What one run of a case gave: a value by metric.
Sample = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Measurement:
    """One line of output. `value` is the median of the rounds, but for a metric that is named after another quantile.

    `ratio` is the median of value / baseline, round by round; None for what has no baseline, and the baseline's own is
    1. `pairs` is how many rounds. `spread` is the distance between the quartiles: of the ratios, or of the values as
    parts of their median where there is no ratio. One round has no spread.
    """

    bench: str
    case: str
    metric: str
    value: float
    unit: str
    ratio: float | None
    pairs: int
    spread: float | None


@dataclass(frozen=True, slots=True)
class Size:
    """How much a bench does: smoke is what the test suite runs, just enough to see that the bench works."""

    smoke: bool = False

    def pick(self, full: T, smoke: T) -> T:
        return smoke if self.smoke else full


def in_turns(cases: Mapping[str, Callable[[], Sample]], rounds: int, *, warm: int = 1) -> dict[str, list[Sample]]:
    """Run every case once a round; each second round goes backwards, so that none always follows the same other.

    >>> in_turns({"a": lambda: {"s": 1.0}, "b": lambda: {"s": 2.0}}, 2, warm=0)
    {'a': [{'s': 1.0}, {'s': 1.0}], 'b': [{'s': 2.0}, {'s': 2.0}]}
    """
    for _ in range(warm):
        for case in cases.values():
            case()
    samples: dict[str, list[Sample]] = {name: [] for name in cases}
    for turn in range(rounds):
        for name in list(cases)[:: 1 if turn % 2 == 0 else -1]:
            samples[name].append(cases[name]())
    return samples


def summary(
    bench: str,
    samples: Mapping[str, Sequence[Sample]],
    units: Mapping[str, str],
    baseline: str | None = None,
    *,
    tail: Sequence[str] = (),
) -> Iterator[Measurement]:
    """The measurements of all cases and metrics that have a unit, compared to the baseline case where one is named.

    Metrics named in `tail` also get the value that 99 in 100 rounds stay below, as "<metric> p99".

    >>> [(m.value, m.ratio) for m in summary("b", {"none": [{"s": 2.0}], "lazy": [{"s": 3.0}]}, {"s": "s"}, "none")]
    [(2.0, 1.0), (3.0, 1.5)]
    """
    for case, rounds in samples.items():
        for metric, unit in units.items():
            values = [sample[metric] for sample in rounds if metric in sample]
            if not values:
                continue
            ratios = _ratios(rounds, samples[baseline], metric) if baseline is not None else []
            middle = median(values)
            parts = [value / middle for value in values] if middle else []
            yield Measurement(
                bench,
                case,
                metric,
                middle,
                unit,
                median(ratios) if ratios else None,
                len(values),
                _spread(ratios or parts),
            )
            if metric in tail:
                yield Measurement(bench, case, f"{metric} p99", _p99(values), unit, None, len(values), None)


def _ratios(rounds: Sequence[Sample], below: Sequence[Sample], metric: str) -> list[float]:
    """Value by value of the baseline, in the rounds where the baseline has one that can be divided by."""
    return [
        sample[metric] / base[metric]
        for sample, base in zip(rounds, below, strict=True)
        if metric in sample and base.get(metric)
    ]


def _spread(values: Sequence[float]) -> float | None:
    if len(values) < 2:
        return None
    low, _, high = quantiles(values, n=4, method="inclusive")
    return high - low


def _p99(values: Sequence[float]) -> float:
    return quantiles(values, n=100, method="inclusive")[-1] if len(values) > 1 else values[0]


@contextmanager
def timed(into: dict[str, float], metric: str = "time") -> Iterator[None]:
    """Put the seconds that the block takes into a sample."""
    begin = time.perf_counter()
    yield
    into[metric] = time.perf_counter() - begin
