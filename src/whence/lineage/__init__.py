"""Rewrite: plan to plan. Identities, ids carried along, questions back and forward, replay.

One rule a node kind in each module; no Spark, no SQL text, nothing is executed.
"""

from whence.lineage.back import Asked, Edges, ask_values, trace_back
from whence.lineage.carry import Carried, Carry, carry
from whence.lineage.checks import MODULUS, check_of, hash_call, hash_of
from whence.lineage.forward import Made, Reached, reach_values, trace_forward
from whence.lineage.fresh import Fresh
from whence.lineage.identify import Identified, identify
from whence.lineage.intervals import Interval, Ranged, carry_intervals
from whence.lineage.reach import Reach, reach_of, source_reaches
from whence.lineage.replay import replay_plan, whole_inputs
from whence.lineage.restrict import Wanted, restrict, wanted_condition, wanted_values
from whence.lineage.settle import settle
from whence.lineage.weaknesses import Weakness, weaknesses

__all__ = [
    "MODULUS",
    "Asked",
    "Carried",
    "Carry",
    "Edges",
    "Fresh",
    "Identified",
    "Interval",
    "Made",
    "Ranged",
    "Reach",
    "Reached",
    "Wanted",
    "Weakness",
    "ask_values",
    "carry",
    "carry_intervals",
    "check_of",
    "hash_call",
    "hash_of",
    "identify",
    "reach_of",
    "reach_values",
    "replay_plan",
    "restrict",
    "settle",
    "source_reaches",
    "trace_back",
    "trace_forward",
    "wanted_condition",
    "wanted_values",
    "weaknesses",
    "whole_inputs",
]
