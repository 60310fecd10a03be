"""Suriarachchi et al. 2018, figures 2 to 4: counting hashtags by map and reduce, and what depends on what.

The figures are pictures; from the text: each line is a tweet, map gives (hashtag, 1) for each hashtag in it, reduce
counts. Asked are the backward provenance of the output ``c : 2`` and the forward provenance of the first tweet.
"""

from tests.goldens.judges import results
from whence.plan.builder import source
from whence.semantics import Table

TWEETS = source("tweets", hashtags="array<string>")
MAPPED = TWEETS.explode("hashtags", "hashtag").select("hashtag", one="1").named("map")
COUNTED = MAPPED.group("hashtag", n="count(one)").named("reduce")

# Offsets in the file tell the lines apart.
LINES = {"tweets": Table(("hashtags",), [(("a", "b", "c"),), (("a",),), (("c",),), ((),)], ids=[0, 20, 31, 40])}


def test_figure_2_counts() -> None:
    assert sorted(results(COUNTED, LINES)) == [("a", 2), ("b", 1), ("c", 2)]


def test_figure_3_and_4_backward_provenance_of_c() -> None:
    assert results(COUNTED, LINES)["c", 2] == {("tweets", 0), ("tweets", 31)}


def test_figure_3_and_4_forward_provenance_of_the_first_tweet() -> None:
    assert {row for row, edges in results(COUNTED, LINES).items() if ("tweets", 0) in edges} == {
        ("a", 2), ("b", 1), ("c", 2)
    }  # fmt: skip


def test_the_reduced_graph_has_one_edge_a_pair_and_none_for_a_line_without_hashtags() -> None:
    edges = {(row[0], id) for row, lineage in results(COUNTED, LINES).items() for _, id in lineage}
    assert edges == {("a", 0), ("a", 20), ("b", 0), ("c", 0), ("c", 31)}


def test_a_hashtag_twice_in_a_line_counts_twice_and_is_one_edge() -> None:
    twice = {"tweets": Table(("hashtags",), [(("c", "c"),)], ids=[7])}
    assert results(COUNTED, twice) == {("c", 2): {("tweets", 7)}}
