"""The one writer of a run: a lock that ends with its process, however that ends.

The kernel drops the lock when the process dies, so a killed run is never taken for a live one and needs no clearing
up. Reading needs no lock: epochs are visible whole or not at all. It is deliberately not a lock between machines:
network file systems may not pass it on.
"""

import fcntl
import json
import os
import socket
from pathlib import Path
from typing import IO

from whence.store.layout import LOCK


def hold_lock(run: Path) -> IO[str] | None:
    """The open lock of a run, held until it is closed; None when another writer holds it."""
    file = (run / LOCK).open("a+", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    file.truncate(0)
    file.write(json.dumps({"process": os.getpid(), "host": socket.gethostname()}) + "\n")
    file.flush()
    return file


def is_being_written(run: Path) -> bool:
    """Whether a writer holds the lock of a run now."""
    try:
        with (run / LOCK).open(encoding="utf-8") as file:
            # Shared, so that two readers who look at the same moment do not take each other for a writer.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        # No lock, as in a run that was copied without it, or one that cannot be asked: nobody is known to write.
        return False
    return False


def lock_holder(run: Path) -> str:
    """Who holds the lock, for people to read."""
    try:
        found = json.loads((run / LOCK).read_text(encoding="utf-8"))
        return f"process {found['process']} on {found['host']}"
    except (OSError, ValueError, LookupError, TypeError):
        return "another process"
