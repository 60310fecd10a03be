"""Names of the columns that traced plans carry beside the user's own."""

from __future__ import annotations

PREFIX = "__whence_"
"""No column of a user may start with this."""

ROW_ID = "__whence_id"
"""On a source: the row's id, a bigint."""

LATE = "__whence_late"
"""On a stream's source: the timestamp at or before which the row's epoch dropped rows as late."""

RESULTS = "__whence_results"
"""The name under which a plan reads the result rows that a run stored, as if they were a source."""
