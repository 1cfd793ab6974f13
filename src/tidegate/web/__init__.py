"""HTML pages of sessions and of the lab, each a single file that needs no network."""
