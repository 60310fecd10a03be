"""The list of deliberate faults. Rooms beside lineage add theirs in lists of their own."""

from tests.mutants.mutate import Mutant

LAWS = "tests/lineage/test_laws.py::"
BACK = LAWS + "test_back_is_the_oracles_lineage"
FORWARD = LAWS + "test_forward_is_back_reversed"
CARRIED = LAWS + "test_carried_ids_are_the_oracles_lineage"
INTERVALS = "tests/lineage/test_intervals.py::"
RANGED = INTERVALS + "test_intervals_are_the_oracles"
RESTRICTED = LAWS + "test_restricting_keeps_the_wanted_rows"
WITNESS = LAWS + "test_the_witness_alone_reproduces_the_row"
TAKEN_AWAY = "tests/lineage/test_replay.py::test_what_an_anti_join_or_except_took_away_stays_away"
FIRST_INSTANT = "tests/goldens/test_palyvos.py::test_figure_1_windows_hold_their_first_instant_and_not_their_last"
LIMIT = "tests/lineage/test_restrict.py::test_nothing_is_pushed_below_a_limit"
STREAMS = "tests/semantics/test_streams.py::"
SETTLED = STREAMS + "test_append_is_the_settled_batch_of_all_windows_that_are_over"

LINEAGE = [
    Mutant(
        "back drops the role of a semi join", "whence.lineage.back",
        'self.trace(node.right, self.matches(node, asked), "condition")',
        'self.trace(node.right, self.matches(node, asked), "value")', BACK,
    ),
    Mutant(
        "back forgets what let a semi join pass", "whence.lineage.back",
        "if reaches(node.right, self.sources):", "if False:", BACK,
    ),
    Mutant(
        "equality forgets null keys", "whence.lineage.fresh",
        '[Call("<=>", (Column(a), Column(b)))', '[Call("=", (Column(a), Column(b)))', BACK,
    ),
    Mutant(
        "back traces except to the wrong side", "whence.lineage.back",
        'inputs = (node.left,) if node.kind == "except"', 'inputs = (node.right,) if node.kind == "except"', BACK,
    ),
    Mutant(
        "back forgets the right side of a join", "whence.lineage.back",
        "            found += self.trace(side, self.slice(here, asked.keys[start : start + count]), role)\n",
        "            if side is node.left:\n"
        "                found += self.trace(side, self.slice(here, asked.keys[start : start + count]), role)\n", BACK,
    ),
    Mutant(
        "back forgets that an outer row has no partner", "whence.lineage.back",
        'there = Call("<=>", (Column(asked.keys[start]), Literal(True, BOOLEAN)))',
        'there = Call("<=>", (Column(asked.keys[start]), Literal(None, BOOLEAN)))', BACK,
    ),
    Mutant(
        "back mixes the branches of a union", "whence.lineage.back",
        "            start += count\n        return found\n\n    def join",
        "            start += 0\n        return found\n\n    def join", BACK,
    ),
    Mutant(
        "back forgets the rows of a frame", "whence.lineage.back",
        "for frame in frames_of(node):", "for frame in frames_of(node)[:0]:", BACK,
    ),
    Mutant(
        "a frame starts one row late", "whence.lineage.frames",
        'Call(">=", (there, _plus(here, frame.start)))', 'Call(">", (there, _plus(here, frame.start)))', BACK,
    ),
    Mutant(
        "a frame leaves its last peers out", "whence.lineage.frames",
        "tests.append(Call(operator, (Column(other.rank), Column(row.rank))))",
        "tests.append(Call(operator.rstrip('='), (Column(other.rank), Column(row.rank))))", BACK,
    ),
    Mutant(
        "identity mixes the branches of a union", "whence.lineage.identify",
        "columns.append(Named(branch_key, Literal(index, INT)))",
        "columns.append(Named(branch_key, Literal(0, INT)))", BACK,
    ),
    Mutant(
        "identity forgets the windows of a row", "whence.lineage.identify",
        "return Identified(plan, (*below.keys, key))\n        case Union():",
        "return Identified(plan, (key,) if below.keys else ())\n        case Union():", BACK,
    ),
    Mutant(
        "identity forgets one side of an outer join", "whence.lineage.identify",
        'if node.kind in ("left", "full"):\n        right = _present',
        'if node.kind == "left":\n        right = _present',
        BACK,
    ),
    Mutant(
        "a wanted window starts too late", "whence.lineage.restrict",
        "ends = (0, node.size)", "ends = (1, node.size)", FIRST_INSTANT,
    ),
    Mutant(
        "a wanted null is pushed below an outer join", "whence.lineage.restrict",
        'if used <= left_names and not (w.null and node.kind in ("right", "full")):', "if used <= left_names:",
        RESTRICTED,
    ),
    Mutant(
        "a wanted null is lost", "whence.lineage.restrict",
        'return null if test is None else Call("or", (test, null))',
        "return null if test is None else test", RESTRICTED,
    ),
    Mutant(
        "a limit is restricted below", "whence.lineage.restrict",
        "case Values() | Limit():\n            return node\n",
        "case Values():\n            return node\n        case Limit():\n"
        "            return replace(node, child=restrict(node.child, wanted))\n", LIMIT,
    ),
    Mutant(
        "forward drops the role of a semi join", "whence.lineage.forward",
        '"condition") for r, _ in', '"value") for r, _ in', FORWARD,
    ),
    Mutant(
        "forward forgets an input of an intersection", "whence.lineage.forward",
        'if node.kind == "except" else (node.left, node.right)', 'if node.kind == "except" else (node.left,)', FORWARD,
    ),
    Mutant(
        "forward takes the right side's identity at the wrong place", "whence.lineage.forward",
        "right = marker + (1 if right_optional else 0)", "right = marker", FORWARD,
    ),
    Mutant(
        "forward takes a missing side for one whose keys are null", "whence.lineage.forward",
        "if present is not None:", "if present is not None and False:", FORWARD,
    ),
    Mutant(
        "carry forgets a side of a join", "whence.lineage.annotations",
        "return self.together(joined, names(node), (*left.annotations, *right.annotations))",
        "return self.together(joined, names(node), left.annotations)", CARRIED,
    ),
    Mutant(
        "carry forgets the row itself beside its frame", "whence.lineage.carry",
        'Call("array_concat", (own, *lists))', 'Call("array_concat", (EMPTY_IDS, *lists))', CARRIED,
    ),
    Mutant(
        "carry forgets all ids where one side has none", "whence.lineage.carry",
        'Call("coalesce", (Column(p.column), EMPTY_IDS)) if p.many', "Column(p.column) if p.many", CARRIED,
    ),
    Mutant(
        "carry keeps what let a row pass as its value", "whence.lineage.carry",
        'replace(annotation, role="condition")', "annotation", CARRIED,
    ),
    Mutant(
        "a semi join without condition lets rows pass because of none", "whence.lineage.annotations",
        "Annotated(Filter(whole.plan, met), whole.annotations)", "whole",
        INTERVALS + "test_conditions_have_ends_only",
    ),
    Mutant(
        "nodes are annotated twice where sets are compared", "whence.lineage.annotations",
        "pairs = join_same(one.plan, two.plan,", "pairs = join_same(one.plan, Union((two.plan, two.plan)),",
        INTERVALS + "test_nothing_is_read_or_drawn_twice",
    ),
    Mutant(
        "an interval begins at its largest id", "whence.lineage.intervals",
        'AggregateCall("min", (self.low,))', 'AggregateCall("max", (self.low,))', RANGED,
    ),
    Mutant(
        "an interval ends where its last part begins", "whence.lineage.intervals",
        'AggregateCall("max", (self.high,))', 'AggregateCall("max", (self.low,))', RANGED,
    ),
    Mutant(
        "how many counts rows to which a source brought nothing", "whence.lineage.intervals",
        'AggregateCall("count", (self.low,)) if self.one', 'AggregateCall("count") if self.one',
        INTERVALS + "test_a_union_may_have_a_source_on_one_side_only",
    ),
    Mutant(
        "a missing side takes how many and the check away", "whence.lineage.intervals",
        "total, *more = (_or_zero(v) for v in values)", "total, *more = values", RANGED,
    ),
    Mutant(
        "sums are added without being reduced", "whence.lineage.intervals",
        "(modulo(self.counted), modulo(self.checked))", "(self.counted, self.checked)",
        INTERVALS + "test_how_many_and_check_never_overflow",
    ),
    Mutant(
        "conditions are certified like values", "whence.lineage.intervals",
        'role="condition", certified=False, columns=annotation.columns[:2])', 'role="condition")',
        INTERVALS + "test_conditions_have_ends_only",
    ),
    Mutant(
        "a row in its own frame counts twice", "whence.lineage.intervals",
        'return _merged([*by_place, Frame("rows", 0, 0)])', 'return (*by_place, Frame("rows", 0, 0))', RANGED,
    ),
    Mutant(
        "frames by value are taken to hold the row", "whence.lineage.intervals",
        "return None  # whether the row", "pass  # whether the row",
        INTERVALS + "test_frames_that_data_decide_have_ends_only",
    ),
    Mutant(
        "the hash of an expression is another", "whence.lineage.checks",
        'Call("+", (modulo(id, prime), _ONE))', "modulo(id, prime)", RANGED,
    ),
    Mutant(
        "replay cuts the right side of an anti join", "whence.lineage.replay",
        'case Join(kind="anti") | SetOperation(kind="except"):\n            return replace',
        'case SetOperation(kind="except"):\n            return replace', TAKEN_AWAY + "[anti]",
    ),
    Mutant(
        "replay cuts the right side of an except", "whence.lineage.replay",
        'case Join(kind="anti") | SetOperation(kind="except"):\n            return replace',
        'case Join(kind="anti"):\n            return replace', TAKEN_AWAY + "[except]",
    ),
    Mutant(
        "replay loses a witness row", "whence.lineage.replay",
        "(Literal(i, BIGINT) for i in ids)", "(Literal(i, BIGINT) for i in ids[1:])", WITNESS,
    ),
    Mutant(
        "late is before the watermark, not at it", "whence.lineage.settle",
        'Call(">", (moments[0], Column(LATE)))', 'Call(">=", (moments[0], Column(LATE)))', SETTLED + "[tumbling]",
    ),
    Mutant(
        "a window is late by its start", "whence.lineage.settle",
        'return Member(expression, "end")', 'return Member(expression, "start")', SETTLED + "[sliding]",
    ),
    Mutant(
        "a window stamped by its start is late by that", "whence.lineage.settle",
        'return node.size if node.stamp == "start" else 0', "return 0", SETTLED + "[starts]",
    ),
]  # fmt: skip

# Faults in the rooms that need Spark or DuckDB are in `test_engines.py`.
FAULTS = [*LINEAGE]
