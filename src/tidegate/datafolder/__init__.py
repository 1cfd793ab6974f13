"""A folder with all data of an agent: sessions, blobs, notes, traces, snapshots."""

import tidegate.disk  # noqa: F401 - says first if this system cannot store sessions
