"""The shell tool and how output is read from it."""
