"""The statements of the SQLite store."""

ENTRY = "SELECT id, name, head, packed, loose, size, created, used, sum FROM sessions"
TABLES = ("placed", "arrived")
"""Where rows are: at their place among the rows of all sessions, or in the order in which they came."""
SOUND = ("placed", "(SELECT id, count, mark, sum, data FROM arrived WHERE own = id)")
"""The same, to be read: `id` is found by an index, and a damaged one may lead to the row of another session."""
CHUNK = "SELECT id, count, mark, sum, data FROM"
UNINDEXED = f"{CHUNK} arrived NOT INDEXED"
"""For when the index is damaged."""
INSERT = "INSERT INTO placed VALUES (?, ?, ?, ?, ?)"
INSERT_ARRIVED = "INSERT INTO arrived VALUES (NULL, ?1, ?1, ?2, ?3, ?4, ?5)"
INSERT_BEHIND = (
    "INSERT OR IGNORE INTO placed VALUES (?1, CASE WHEN (SELECT max(id) FROM placed WHERE id < ?6) = ?7"
    " AND NOT EXISTS (SELECT 1 FROM arrived WHERE id > ?7 AND id < ?6) THEN ?2 END, ?3, ?4, ?5)"
)
"""If the last row of the session is the one we know: whoever appended, packed or deleted has changed which that is.

Else it is a row without a count, which is refused and ignored. INSERT ... SELECT ... WHERE would take longer: it fills
a table of its own first.
"""
REMOVE = ("DELETE FROM placed WHERE id BETWEEN ? AND ?", "DELETE FROM arrived WHERE id BETWEEN ? AND ? AND own = id")
SAVE = "UPDATE sessions SET head = ?, packed = ?, loose = ?, size = ?, created = ?, used = ?, sum = ? WHERE id = ?"
