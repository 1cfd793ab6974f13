"""Times for people. A log may hold any number as a time; one outside the calendar is shown as a number."""

from datetime import datetime, tzinfo

from tidegate.core.event_check import is_possible_time

UNKNOWN_TIME = "unknown time"


def format_time(seconds: float, pattern: str = "%Y-%m-%d %H:%M", zone: tzinfo | None = None) -> str:
    """Format a time in the time zone of the system, unless another is given."""
    if not is_possible_time(seconds):
        return UNKNOWN_TIME
    return f"{datetime.fromtimestamp(seconds, zone):{pattern}}"
