"""Times for people. A log may hold any number as a time: one that no calendar has is shown as such and harms nobody."""

from datetime import datetime, tzinfo

from tidegate.core.impossible import is_time

UNKNOWN = "unknown time"


def format_time(seconds: float, pattern: str = "%Y-%m-%d %H:%M", zone: tzinfo | None = None) -> str:
    """In the time zone of the system, unless another is given."""
    if not is_time(seconds):
        return UNKNOWN
    return f"{datetime.fromtimestamp(seconds, zone):{pattern}}"
