"""Amounts as people read them: a number with its noun in the singular or the plural, and sizes in bytes."""


def format_count(count: int, noun: str) -> str:
    """For example "1 turn", "1,200 turns"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def format_byte_size(count: int) -> str:
    number = float(count)
    for unit in ("B", "kB", "MB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} GB"
