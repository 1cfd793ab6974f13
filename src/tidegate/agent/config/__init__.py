"""The configuration of an agent: files, settings, trust, and what they resolve to."""
