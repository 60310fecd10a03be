"""Rows, back, forward and replay: each question asked, and its answer shown to people and programs.

Each function says whether there was an answer. Rows are converted here and nowhere else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, cast

import click

from whence.cli.output import SHOWN, Output
from whence.cli.values import rows_of

if TYPE_CHECKING:
    import pyarrow as pa

    from whence.ask.answers import Answer
    from whence.ask.engines import EngineName
    from whence.ask.run import Run

ENGINES = {"duckdb": "DuckDB", "spark": "Spark"}
# Characters for the ids of the other side beside a row: as many ids as fit are shown, whole.
IDS_WIDTH = 24


def show_rows(run: Run, where: str | None, limit: int | None, output: Output) -> bool:
    """The result rows."""
    rows = run.rows(where)
    most = SHOWN + 1 if limit is None and not output.json else limit
    table = rows.to_arrow(ids=True, first=most)
    if not table.num_rows:
        none = "no rows" if where is None else f"no rows for which {where}"
        output.say(none, none=none)
        return False
    if output.json:
        for id, row in _named_rows(table):
            output.record(id=id, row=row)
        return True
    output.table(("row id", *table.column_names[1:]), islice(rows_of(table), limit or SHOWN))
    if limit is None and table.num_rows > SHOWN:
        output.say(f"the first {SHOWN} of {len(rows):,}; --limit shows more")
    _say_zone(table, output)
    return True


def show_back(
    run: Run,
    asked: str | tuple[int, ...] | None,
    sources: tuple[str, ...] | None,
    edges: bool,
    engine: EngineName | None,
    output: Output,
) -> bool:
    """The source rows that made result rows."""
    if isinstance(asked, str):
        where, asked = asked, tuple(run.rows(asked).ids())
        if not asked:
            output.say(f"no result rows for which {where}", none=f"no result rows for which {where}")
            return False
    _say_spark(run, engine, output)
    answer = run.back(asked, sources=sources, engine=engine)
    if edges:
        _show_edges(answer, output)
    elif output.json:
        for source in answer.sources:
            others, roles = _partners(answer, source)
            for id, row in _named_rows(answer.table(source, ids=True)):
                output.record(source=source, id=id, results=others[id], role=roles[id], row=row)
    else:
        shown = False
        for source in answer.sources:
            if answer.ids(source):
                if shown:
                    output.write("")
                _show_partners(answer, source, output)
                shown = True
    counts = [f"{_count(len(answer.ids(source)), 'row')} of {source}" for source in answer.sources]
    _say_answer(answer, f"{_made(len(answer.result_ids()))} {_and(counts)}", output)
    return len(answer) > 0 and answer.exactness != "mismatch"


def show_forward(
    run: Run, source: str, where: str | None, edges: bool, engine: EngineName | None, output: Output
) -> bool:
    """The result rows that source rows made."""
    _say_spark(run, engine, output)
    answer = run.forward(source, where, engine=engine)
    if edges:
        _show_edges(answer, output)
    elif output.json:
        others, roles = _partners(answer, None)
        for id, row in _named_rows(answer.results(ids=True)):
            output.record(id=id, source=source, source_ids=others[id], role=roles[id], row=row)
    elif len(answer):
        _show_partners(answer, None, output)
    made, used = len(answer.result_ids()), len(answer.ids(source))
    chosen = f"{_count(used, 'row')} of {source} made {_count(made, 'result')}"
    none = f"no result came from {source}" + (f" for which {where}" if where else "")
    _say_answer(answer, chosen if made else none, output)
    return len(answer) > 0 and answer.exactness != "mismatch"


def show_replay(run: Run, where: str | None, ids: Sequence[int], engine: EngineName | None, output: Output) -> bool:
    """One result row, recomputed from its witness alone."""
    if where is not None:
        ids = run.rows(where).ids()
        if not ids:
            output.say(f"no result rows for which {where}", none=f"no result rows for which {where}")
            return False
        if len(ids) > 1:
            raise click.UsageError(
                f"{len(ids)} result rows for which {where}: choose one, for example with --row {ids[0]}"
            )
    _say_spark(run, engine, output)
    replay = run.replay(ids[0], engine=engine)
    names = [column.name for column in run.schema]
    witness = {source: len(replay.witness.ids(source)) for source in replay.witness.sources}
    if output.json:
        output.record(
            id=replay.row.id,
            matches=replay.matches,
            row=dict(replay.row),
            recomputed=[dict(row) for row in replay.rows],
            witness={source: replay.witness.ids(source) for source in replay.witness.sources},
            whole_inputs=replay.whole_inputs,
            exactness=replay.witness.exactness,
            engine=replay.engine,
            seconds=round(replay.seconds, 6),
        )
    else:
        again = list(islice(replay.rows, SHOWN))
        lines = [("stored", *(replay.row[name] for name in names))]
        lines += [("recomputed", *(row[name] for name in names)) for row in again]
        output.table(("", *names), lines)
        if len(replay.rows) > SHOWN:
            output.say(f"the first {SHOWN} of {len(replay.rows):,} recomputed rows; --json has all")
        _show_verdict(replay.matches, len(replay.rows), witness, output)
    if replay.whole_inputs:
        steps = ", ".join(replay.whole_inputs)
        output.say(f"{steps}: means nothing on a few rows alone, and was given its whole input")
    output.say(f"by {ENGINES.get(replay.engine, replay.engine)} in {replay.seconds:.3f} s")
    return replay.matches


def _show_verdict(matches: bool, recomputed: int, witness: Mapping[str, int], output: Output) -> None:
    alone = _and([f"{_count(count, 'row')} of {source}" for source, count in witness.items()])
    if matches:
        output.write(f"matches: {alone} alone give the row again" if alone else "matches")
    elif recomputed:
        output.write(f"does not match: from {alone} other rows come out")
    else:
        output.write(f"does not match: from {alone or 'no rows'} nothing comes out")


def _show_edges(answer: Answer, output: Output) -> None:
    table = answer.edges()
    if output.json:
        for row in rows_of(table):
            output.record(**dict(zip(table.column_names, row, strict=True)))
    elif table.num_rows:
        output.table(("result", "source", "source row", "role"), islice(rows_of(table), SHOWN))
        if table.num_rows > SHOWN:
            output.say(f"the first {SHOWN} of {table.num_rows:,} edges; --json has all")


def _named_rows(table: pa.Table) -> Iterator[tuple[int, dict[str, object]]]:
    """The rows of a table that has their ids first: each row's id, and its values by name."""
    names = table.column_names[1:]
    for id, *values in rows_of(table):
        yield cast(int, id), dict(zip(names, values, strict=True))


def _show_partners(answer: Answer, source: str | None, output: Output) -> None:
    """The rows of a source, or the results where none is named, each with the rows of the other side it goes with."""
    if source is None:
        total, table, other = len(answer.result_ids()), answer.results(ids=True, first=SHOWN), "made by"
    else:
        total, table, other = len(answer.ids(source)), answer.table(source, ids=True, first=SHOWN), "went into"
    others, roles = _partners(answer, source)
    # What is the same for all rows is said once, below.
    several = len({id for ids in others.values() for id in ids}) > 1
    conditions = "condition" in roles.values()
    columns = ["row id", *table.column_names[1:], *([other] if several else []), *(["role"] if conditions else [])]
    rows = []
    for id, row in _named_rows(table):
        extra = ([_ids_text(others[id])] if several else []) + ([roles[id]] if conditions else [])
        rows.append((id, *row.values(), *extra))
    output.table(columns, rows, title=f"{source} ({_count(total, 'row')})" if source else "")
    if total > SHOWN:
        output.say(f"the first {SHOWN} of {total:,}; --json has all")
    _say_zone(table, output)


def _partners(answer: Answer, source: str | None) -> tuple[dict[int, list[int]], dict[int, str]]:
    """By row: the ids of the other side, and its role: a value where it is one for any of them."""
    table = answer.edges()
    result, name, source_id, role = (table.column(i).to_pylist() for i in range(4))
    others: dict[int, dict[int, None]] = defaultdict(dict)
    roles: dict[int, str] = {}
    for r, n, s, how in zip(result, name, source_id, role, strict=True):
        if source is None or n == source:
            mine, theirs = (r, s) if source is None else (s, r)
            others[mine][theirs] = None
            if roles.get(mine) != "value":
                roles[mine] = how
    return {id: list(ids) for id, ids in others.items()}, roles


def _say_spark(run: Run, engine: EngineName | None, output: Output) -> None:
    """Spark takes its time to start; nobody should wonder what goes on."""
    if output.json or engine == "duckdb":
        return
    if engine == "spark":
        output.say("starting Spark")
    elif run.capture == "lazy" and not (explanation := run.explain()).portable:
        output.say(f"starting Spark, as DuckDB cannot answer this ({explanation.engine_reason})")


def _say_answer(answer: Answer, sentence: str, output: Output) -> None:
    sure = {
        "exact": "exact",
        "superset": "superset: all rows that contributed, and maybe others",
        "mismatch": "mismatch: some of what was asked has no answer",
    }[answer.exactness]
    output.say(
        f"{sentence}\n{sure}; by {ENGINES.get(answer.engine, answer.engine)} in {answer.seconds:.3f} s"
        + (f"\n{answer.reason}" if answer.reason else ""),
        answer=answer.direction,
        exactness=answer.exactness,
        reason=answer.reason,
        engine=answer.engine,
        seconds=round(answer.seconds, 6),
        results=len(answer.result_ids()),
        sources={source: len(answer.ids(source)) for source in answer.sources},
        edges=len(answer),
    )


def _say_zone(table: pa.Table, output: Output) -> None:
    if any(_holds_instants(field.type) for field in table.schema):
        output.say("times are in UTC")


def _holds_instants(type: pa.DataType) -> bool:
    from pyarrow import types

    if types.is_timestamp(type):
        return type.tz is not None
    return types.is_nested(type) and any(_holds_instants(type.field(i).type) for i in range(type.num_fields))


def _ids_text(ids: Sequence[int]) -> str:
    for count in range(min(len(ids), IDS_WIDTH // 2), 1, -1):
        rest = f" and {len(ids) - count:,} more" if count < len(ids) else ""
        text = ", ".join(map(str, ids[:count])) + rest
        if len(text) <= IDS_WIDTH:
            return text
    return f"{ids[0]} and {len(ids) - 1:,} more" if len(ids) > 1 else str(ids[0])


def _made(results: int) -> str:
    return f"{_count(results, 'result row')} {'was' if results == 1 else 'were'} made by"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _and(parts: Iterable[str]) -> str:
    *most, last = list(parts) or ["nothing"]
    return f"{', '.join(most)} and {last}" if most else last
