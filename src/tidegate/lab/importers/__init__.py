"""Read recorded sessions of other agents and of tidegate, and repair what does not fit together."""

from tidegate.lab.importers.local_sessions import LOCAL_AGENTS, find_local_sessions
from tidegate.lab.importers.registry import ImportedFile, read_recordings, read_recordings_by_file

__all__ = ["LOCAL_AGENTS", "ImportedFile", "find_local_sessions", "read_recordings", "read_recordings_by_file"]
