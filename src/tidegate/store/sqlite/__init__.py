"""The store on one machine: one SQLite file in a data folder, for many threads, tasks and processes.

An append returns when its records are on disk (WAL, `synchronous=FULL`). All of it is refused (`StaleHead`) if the
session does not end where its writer says.

Tables (`migrations.py`):

- `sessions`: one row for each session, with its head, what it holds and a checksum.
- `recent_rows`: the latest records, one row each, in the order in which they were appended. All sessions write at the
  end of this table, so a commit for many of them changes few pages. A trigger moves the session's head, or refuses
  a record that is not the next one.
- `packed_rows`: older records, 64 to a row, compressed. The id is the session's id and the number of the first record,
  so reading a session is a range scan. An append that finds 64 recent records packs them.

Each row has its SHA-256. Damage is reported for the records that it hit; a session whose own row is damaged is rebuilt
from its records.

Modules, from the bottom up: `connection` (open, transactions, errors), `rows` (formats and checksums), `tables` (create
them, read and write rows), `group_commit` (appends that wait share a transaction), `store` (the public class, and
what an append, a fork, a rewrite and a VACUUM do), `inspection` (for the doctor).
"""

from tidegate.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
