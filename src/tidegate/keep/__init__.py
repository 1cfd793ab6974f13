"""The data folder and the life of the sessions kept in it: opened, traced, forgotten, moved, mended."""
