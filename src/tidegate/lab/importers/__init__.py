"""Recorded sessions of other agents, and of our own: read, mended, and said what was mended."""

from tidegate.lab.importers.mine import AGENTS, find_mine
from tidegate.lab.importers.reading import Found, read_any, read_each

__all__ = ["AGENTS", "Found", "find_mine", "read_any", "read_each"]
