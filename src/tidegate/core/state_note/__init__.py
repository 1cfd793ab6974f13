"""State notes: the state of the work, written by a model, checked against the log, and shown after a sweep."""
