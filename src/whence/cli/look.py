"""Runs, explain and doctor: what there is and how it is, shown to people and programs. No question is asked here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from whence.cli.output import Output
from whence.errors import BrokenRun, NewerFormat, WhenceError

if TYPE_CHECKING:
    from whence.ask.doctor import Finding
    from whence.ask.run import Run


def show_runs(folder: str, output: Output) -> bool:
    """The runs in a folder."""
    from whence.ask.listing import list_runs

    found = list_runs(folder)
    if output.json:
        for run in found:
            problem = run.problem
            output.record(
                path=str(run.path),
                kind=run.kind or None,
                state=run.state,
                capture=run.capture or None,
                rows=run.rows,
                epochs=run.epochs,
                created=run.created or None,
                sources=run.sources,
                problem=None if problem is None else error_parts(problem),
            )
        return bool(found)
    if not found:
        output.say(f"no runs in {folder}: whence demo makes one")
        return False
    root = Path(folder).absolute()
    whole = [run for run in found if run.problem is None]
    if whole:
        output.table(
            ("run", "kind", "state", "capture", "rows", "epochs", "created"),
            [
                (_spelled(r.path, root, folder), r.kind, r.state, r.capture, r.rows, r.epochs, _moment(r.created))
                for r in whole
            ],
        )
    broken = [(_spelled(run.path, root, folder), run.problem) for run in found if run.problem is not None]
    if broken:
        if whole:
            output.write("")
        output.table(("broken run", "problem"), [(path, _problem_text(problem)) for path, problem in broken])
    return True


def show_explanation(run: Run, output: Output) -> None:
    """What a run does about lineage."""
    from whence.ask.explain import cost_text

    found = run.explain()
    if output.json:
        output.record(
            run=str(run.path),
            capture=found.capture,
            reason=found.reason,
            portable=found.portable,
            engine_reason=found.engine_reason,
            costs=[
                {"capture": c.capture, "bytes": c.bytes, "measured": c.measured, "why_not": c.why_not}
                for c in found.costs
            ],
            steps=[{"name": s.name, "kind": s.kind, "reach": s.reach, "weakness": s.weakness} for s in found.steps],
            plan=found.plan,
        )
        return
    output.write(f"capture    {found.capture}: {found.reason}")
    asks = "the stored ids answer, with DuckDB" if found.capture == "eager" else "DuckDB answers, without Spark"
    needs = found.portable or found.capture == "eager"
    output.write(f"questions  {asks if needs else f'Spark answers ({found.engine_reason})'}")
    for cost in found.costs:
        output.write(f"{cost.capture:<9}  adds {cost_text(cost)}")
    output.write("")
    weak = any(step.weakness for step in found.steps)
    output.table(
        ("step", "kind", "reach", *(["to know"] if weak else [])),
        [(s.name, s.kind, s.reach, *([s.weakness] if weak else [])) for s in found.steps],
    )
    output.say("reach: how long a row can still matter to a step")


def show_findings(run: str | None, output: Output) -> bool:
    """What the doctor found; whether all is well."""
    from whence.ask.doctor import examine_machine, examine_run

    findings = list(examine_machine())
    if run is not None:
        import whence

        try:
            findings += examine_run(whence.open(run))
        except (BrokenRun, NewerFormat) as problem:
            from whence.ask.doctor import Finding

            findings.append(Finding("run", False, _problem_text(problem), problem.hint))
    _show_findings(findings, output)
    return all(finding.well for finding in findings)


def _show_findings(findings: list[Finding], output: Output) -> None:
    if output.json:
        for finding in findings:
            output.record(check=finding.name, well=finding.well, found=finding.found, hint=finding.hint)
        return
    wrong = [finding for finding in findings if not finding.well]
    for finding in findings:
        output.write(f"{'ok   ' if finding.well else 'WRONG'}  {finding.name:<12}  {finding.found}")
    for finding in wrong:
        output.say(f"{finding.name}: {finding.hint}")
    output.say("all is well" if not wrong else f"{len(wrong)} of {len(findings)} checks found something wrong")


def error_parts(error: WhenceError) -> dict[str, str]:
    """An error as programs get it."""
    return {
        "kind": type(error).__name__,
        "statement": error.statement,
        "detail": error.detail,
        "hint": error.hint,
    }


def _problem_text(error: WhenceError) -> str:
    return f"{error.statement}: {error.detail}" if error.detail else error.statement


def _spelled(path: Path, root: Path, folder: str) -> str:
    """A run's path as it can be given to the other commands from here."""
    return str(Path(folder) / path.relative_to(root)) if path.is_relative_to(root) else str(path)


def _moment(created: str) -> str:
    """To the second: "2026-01-01 08:00:00"."""
    return created[:19].replace("T", " ")
