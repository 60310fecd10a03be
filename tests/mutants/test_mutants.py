"""Every deliberate fault is noticed by the law it names, within the cases of `make test`."""

import dataclasses
import sys

import pytest

from tests.mutants.faults import FAULTS, LINEAGE
from tests.mutants.mutate import Mutant, StaleMutant, applied, catches, changed_text, run_law


def marked(mutant: Mutant) -> object:
    return pytest.param(mutant, id=mutant.name, marks=[pytest.mark.slow] if mutant.slow else [])


@pytest.mark.parametrize("mutant", [marked(m) for m in FAULTS])
def test_the_fault_is_noticed(mutant: Mutant) -> None:
    assert catches(mutant) is not None, f"{mutant.law} does not notice: {mutant.name}"


@pytest.mark.parametrize("mutant", FAULTS, ids=[m.name for m in FAULTS])
def test_the_text_of_the_fault_is_there(mutant: Mutant) -> None:
    compile(changed_text(mutant), mutant.name, "exec")


def test_names_tell_faults_apart() -> None:
    names = [m.name for m in FAULTS]
    assert len(set(names)) == len(names)


def test_a_stale_fault_fails_loudly() -> None:
    stale = dataclasses.replace(LINEAGE[0], old="text that nobody wrote")
    with pytest.raises(StaleMutant, match="0 times"):
        catches(stale)
    with pytest.raises(StaleMutant, match="changes nothing"):
        catches(dataclasses.replace(LINEAGE[0], new=LINEAGE[0].old))
    with pytest.raises(StaleMutant, match="breaks the code"):
        catches(dataclasses.replace(LINEAGE[0], new="self.trace(nobody)"))


def test_everything_is_put_back() -> None:
    import whence.lineage
    from whence.lineage import back

    before = {n: m for n, m in sys.modules.items() if n.startswith("whence")}
    with applied(LINEAGE[0]):
        from whence.lineage.back import trace_back

        assert trace_back is not back.trace_back
    assert {n: m for n, m in sys.modules.items() if n.startswith("whence")} == before
    assert sys.modules["whence"].lineage is whence.lineage


@pytest.mark.parametrize("law", sorted({m.law for m in FAULTS if not m.slow}))
def test_without_a_fault_the_law_holds(law: str) -> None:
    run_law(law)
