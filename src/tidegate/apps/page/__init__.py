"""Pages to look at: one self-contained HTML file each, which asks nothing of any network."""
