"""For users' own tests: ``assert_lineage`` judges a run by the executable definition; ``strategies`` generate plans.

    from whence.testing import assert_lineage

    def test_my_query(spark, tmp_path):
        run = whence.trace(my_query(spark)).write(tmp_path / "run")
        assert_lineage(run)

``strategies`` needs hypothesis; nothing else here does.
"""

from whence.testing.assertions import assert_lineage

__all__ = ["assert_lineage"]
