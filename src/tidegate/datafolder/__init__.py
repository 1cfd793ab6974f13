"""A folder with all data of an agent: sessions, blobs, notes, traces, snapshots."""
