"""Counts in words."""


def format_count(count: int, noun: str) -> str:
    """For example "1 turn", "1,200 turns"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
