"""How many of something: a number with its noun in the singular or the plural."""


def format_count(count: int, noun: str) -> str:
    """For example "1 turn", "1,200 turns"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
