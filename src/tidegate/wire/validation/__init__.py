"""The parts of validation that all dialects share."""
