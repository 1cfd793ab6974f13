"""Counters of the gateway in the text format of Prometheus (no content, no session names), and what watchers get."""

from collections import Counter
from typing import Final, NamedTuple

_HELP: Final = {
    "tidegate_requests_total": "Requests by dialect, handling and status.",
    "tidegate_edited_requests_total": "Requests that were forwarded with edits.",
    "tidegate_overflows_total": "Refusals of an upstream for length that were retried inside the gateway.",
    "tidegate_unlogged_requests_total": "Requests that were forwarded although they could not be logged.",
    "tidegate_unmanaged_requests_total": "Requests that were forwarded as the client sent them, because no view fits.",
    "tidegate_side_requests_total": "Requests of clients for a title or the like, which belong to no session.",
    "tidegate_guarded_requests_total": "Requests that the emergency guard shortened.",
    "tidegate_requests_with_thinking_left_out_total": "Requests after which more signed thinking is left out.",
    "tidegate_refused_thinking_total": "Requests that an upstream refused for their thinking and got again without it.",
    "tidegate_dropped_thinking_total": "Blocks of thinking that an upstream dropped.",
    "tidegate_defects_total": "Edited requests that broke a rule of their provider and were not sent.",
    "tidegate_guarded_own_requests_total": "Clients' own requests sent without their oldest messages.",
    "tidegate_recalls_total": "Answers that were continued after calls of the hidden tool.",
    "tidegate_store_timeouts_total": "Calls of the store that did not end in time.",
    "tidegate_store_outages_total": "Times that the store stopped answering.",
    "tidegate_branches_total": "Conversations that continued from an earlier message.",
    "tidegate_groups_read_ahead_total": "Groups of messages that were read between requests for the next sweep.",
    "tidegate_failed_readings_total": "Times that this reading failed; the sweep then reads them itself.",
    "tidegate_state_notes_total": "State notes by outcome.",
    "tidegate_state_note_input_tokens_total": "Input tokens that upstreams reported for state notes.",
    "tidegate_state_note_cached_tokens_total": "Those of them that the provider read from its cache.",
    "tidegate_state_note_output_tokens_total": "Output tokens that upstreams reported for state notes.",
    "tidegate_input_tokens_total": "Input tokens that upstreams reported.",
    "tidegate_output_tokens_total": "Output tokens that upstreams reported.",
}


class Metrics:
    def __init__(self) -> None:
        self._counts: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()
        self.open_sessions = 0
        self.running_requests = 0
        self.is_store_silent = False

    def count(self, name: str, amount: int = 1, **labels: str) -> None:
        self._counts[f"tidegate_{name}_total", tuple(sorted(labels.items()))] += amount

    def read(self, name: str, **labels: str) -> int:
        """The sum of a counter over its labels, or over those that have these."""
        return sum(
            amount
            for (full_name, pairs), amount in self._counts.items()
            if full_name == f"tidegate_{name}_total" and labels.items() <= dict(pairs).items()
        )

    def render(self) -> str:
        lines: list[str] = []
        for name, text in _HELP.items():
            lines += [f"# HELP {name} {text}", f"# TYPE {name} counter"]
            counts = sorted(item for item in self._counts.items() if item[0][0] == name)
            lines += [f"{name}{_format_labels(labels)} {number}" for (_, labels), number in counts]
            if not counts:
                lines.append(f"{name} 0")
        gauges = {
            "open_sessions": self.open_sessions,
            "running_requests": self.running_requests,
            "store_silent": int(self.is_store_silent),
        }
        for name, number in gauges.items():
            lines += [f"# TYPE tidegate_{name} gauge", f"tidegate_{name} {number}"]
        return "\n".join(lines) + "\n"


def _format_labels(labels: tuple[tuple[str, str], ...]) -> str:
    return "{" + ",".join(f'{key}="{value}"' for key, value in labels) + "}" if labels else ""


class ForwardedRequest(NamedTuple):
    """A managed request that an upstream accepted, for whoever watches.

    `parent` is the session of the agent that started this one. `saved_tokens` is by how much the request is smaller
    than the client's own. `window` is that of the session; None if it is not known.
    """

    session: str
    parent: str
    tokens: int
    saved_tokens: int
    window: int | None = None
