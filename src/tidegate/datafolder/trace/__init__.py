"""The trace of a session: one JSON line per call."""
