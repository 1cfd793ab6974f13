"""The statements of the SQLite store."""

ENTRY = "SELECT id, name, head, packed, loose, size, created, used, seal FROM sessions"
CHUNK = "SELECT id, count, mark, sum, data FROM placed WHERE"
INSERT = "INSERT INTO placed VALUES (?, ?, ?, ?, ?)"
INSERT_IF_ABSENT = "INSERT OR IGNORE INTO placed VALUES (?, ?, ?, ?, ?)"
INSERT_BEHIND = (
    "INSERT OR IGNORE INTO placed VALUES (?1, CASE WHEN (SELECT max(id) FROM placed WHERE id < ?5) = ?6"
    " AND ?7 = (SELECT coalesce(max(turn), 0) FROM members) THEN 1 END, ?2, ?3, ?4)"
)
"""If the last row of the session is the one we know: whoever appended, packed or deleted has changed which that is. And
if no batch has come that we do not know: the session may be in it.

Else it is a row without a count, which is refused and ignored. INSERT ... SELECT ... WHERE would take longer: it fills
a table of its own first.
"""
REMOVE = "DELETE FROM placed WHERE id BETWEEN ? AND ?"
SAVE = "UPDATE sessions SET head = ?, packed = ?, loose = ?, size = ?, created = ?, used = ?, seal = ? WHERE id = ?"
