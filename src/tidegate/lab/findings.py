"""What a comparison found, as one value: the JSON that tables, pages and the gate are made from."""

from itertools import permutations
from typing import Any, Final, NamedTuple

from tidegate import __version__
from tidegate.lab.comparing import Groups, Results, groups_of
from tidegate.lab.figures import Figures
from tidegate.lab.measures import BY_KEY, JUDGED, MEASURES
from tidegate.lab.sources import Skipped, Source
from tidegate.lab.stats import LEAST_GROUPS, RESAMPLES, SEED, Estimate, Sample, estimate, paired, verdict

FORM: Final = "tidegate-lab/1"
DEARER: Final = ("cost", "billed_ratio")
"""Above 1 managing costs more than not managing: those sessions are listed."""
MOST_POINTS: Final = 240

Json = dict[str, Any]


class Told(NamedTuple):
    """What is said around the figures: sentences, and the setup as it was asked for."""

    title: str
    made: str
    notes: tuple[str, ...]
    setup: Json
    baseline: str
    skipped: tuple[Skipped, ...] = ()


def findings(results: Results, told: Told, *, detail: bool = True) -> Json:
    """`detail` adds the requests over time and what was lost: most of the bytes."""
    plan = results.plan
    long = {source.key for window in plan.windows for source in plan.long_enough(window)}
    return {
        "form": FORM,
        "made": told.made,
        "tidegate": __version__,
        "title": told.title,
        "notes": list(told.notes),
        "setup": {**told.setup, "resamples": RESAMPLES, "level": 0.95, "seed": SEED},
        "baseline": told.baseline,
        "measures": [
            {
                "key": each.key,
                "name": each.name,
                "unit": each.unit,
                "better": each.better,
                "definition": each.definition,
                "not_shown": each.not_shown,
            }
            for each in MEASURES
        ],
        "frontier": {"x": "cost", "y": "far"},
        "policies": [
            {"key": each.key, "name": each.key, "kind": each.kind, "about": each.about, "stamp": each.stamp}
            for each in plan.contenders
        ],
        "sessions": [_session(source) for source in plan.sources if source.key in long],
        "windows": [_Window(results, window, told.baseline).findings(detail=detail) for window in plan.windows],
        "skipped": [{"name": each.name, "why": each.why, "remedy": each.remedy} for each in told.skipped],
        "failures": [
            {
                "session": each.cell.source.key,
                "policy": each.cell.contender.key,
                "window": each.cell.window,
                "why": each.error,
            }
            for each in results.failures
        ],
        "unfinished": results.waiting,
    }


def _session(source: Source) -> Json:
    return {
        "key": source.key,
        "name": source.name,
        "project": source.project,
        "agent": source.agent,
        "calls": source.calls,
        "tokens": round(source.tokens),
        "mended": list(source.mended),
    }


def _told(each: Estimate) -> Json:
    return {"mean": each.mean, "low": each.low, "high": each.high, "n": each.n}


class _Row(NamedTuple):
    session: str
    policy: str
    figures: Figures


class _Window:
    """Everything about one window. Values are kept by policy, measure and session."""

    def __init__(self, results: Results, window: int, baseline: str) -> None:
        self._results = results
        self._window = window
        self._baseline = baseline
        self._policies = [each.key for each in results.plan.contenders]
        self._sources = results.plan.long_enough(window)
        self._groups: Groups = groups_of(self._sources)
        self._cells = {policy: results.of(window, policy) for policy in self._policies}
        self._values: dict[str, dict[str, dict[str, float | None]]] = {}
        for policy, cells in self._cells.items():
            by_session = {session: figures.values() for session, figures in cells.items()}
            self._values[policy] = {
                measure.key: {session: values[measure.key] for session, values in by_session.items()}
                for measure in MEASURES
            }

    def findings(self, *, detail: bool) -> Json:
        found: Json = {
            "window": self._window,
            "counts": self._counts(),
            "resampled": self._groups.kind,
            "left_out": [{"session": each.name, "why": each.why} for each in self._results.plan.left_out(self._window)],
            "means": [self._means(policy) for policy in self._policies],
            "paired": self._paired(),
            "verdicts": self._verdicts(),
            "rows": self._rows(),
            "worse": self._dearer(),
        }
        if detail:
            found["curves"] = [self._curve(*each) for each in self._each()]
            found["lost"] = [self._lost(*each) for each in self._each()]
        return found

    def _each(self) -> list[tuple[str, str, Figures]]:
        return [
            (session, policy, figures) for policy, cells in self._cells.items() for session, figures in cells.items()
        ]

    def _counts(self) -> Json:
        some = next((cells for cells in self._cells.values() if len(cells) == len(self._sources)), {})
        return {
            "sessions": len(self._sources),
            "projects": len({source.project for source in self._sources}),
            "requests": sum(source.calls for source in self._sources),
            "beyond": sum(figures.beyond for figures in some.values()),
            "far": sum(figures.far.of for figures in some.values()),
            "anchors": sum(figures.anchors.of for figures in some.values()),
        }

    def _least(self) -> int:
        """Where not even sessions are enough, no interval is drawn at all."""
        return LEAST_GROUPS if self._groups.kind else 10**9

    def _means(self, policy: str) -> Json:
        groups, least = self._groups.by_session, self._least()
        values = {}
        for measure in MEASURES:
            samples = [Sample(groups[session], value) for session, value in self._values[policy][measure.key].items()]
            values[measure.key] = _told(estimate(samples, least=least))
        totals = {
            key: sum(value or 0 for value in self._values[policy][key].values())
            for key in ("over", "failed", "mended", "invalid", "broken", "summaries", "billed")
        }
        return {"policy": policy, "values": values, "totals": totals}

    def _difference(self, policy: str, other: str, measure: str) -> Estimate:
        mine, theirs = self._values[policy][measure], self._values[other][measure]
        return paired(mine, theirs, self._groups.by_session, least=self._least())

    def _paired(self) -> list[Json]:
        found = []
        for policy in self._policies:
            if policy == self._baseline:
                continue
            for measure in MEASURES:
                if measure.paired:
                    difference = self._difference(policy, self._baseline, measure.key)
                    found.append(
                        {
                            "policy": policy,
                            "baseline": self._baseline,
                            "measure": measure.key,
                            **_told(difference),
                            "verdict": verdict(difference, measure.better),
                        }
                    )
        return found

    def _verdicts(self) -> list[Json]:
        """For each pair: better if nothing that is judged is worse and something better; a trade if both."""
        found = []
        for policy, other in permutations(self._policies, 2):
            judged = {
                measure: verdict(self._difference(policy, other, measure), BY_KEY[measure].better) for measure in JUDGED
            }
            better = [measure for measure, word in judged.items() if word == "better"]
            worse = [measure for measure, word in judged.items() if word == "worse"]
            word = ("trade" if worse else "better") if better else ("worse" if worse else "")
            found.append({"policy": policy, "against": other, "verdict": word, "better": better, "worse": worse})
        return found

    def _rows(self) -> list[Json]:
        rows: list[Json] = [
            {"session": session, "policy": policy, "values": figures.values(), "error": ""}
            for session, policy, figures in self._each()
        ]
        for each in self._results.failures:
            if each.cell.window == self._window:
                rows.append(
                    {
                        "session": each.cell.source.key,
                        "policy": each.cell.contender.key,
                        "values": {},
                        "error": each.error,
                    }
                )
        return rows

    def _dearer(self) -> list[Json]:
        """The negative cases: sessions in which managing costs more than sending the whole history."""
        return [
            {"session": session, "policy": policy, "measure": measure, "value": value, "baseline": 1.0}
            for policy, values in self._values.items()
            for measure in DEARER
            for session, value in values[measure].items()
            if value is not None and value > 1
        ]

    def _curve(self, session: str, policy: str, figures: Figures) -> Json:
        """At most so many points: every n-th request, and those that were edited."""
        every = max(1, -(-len(figures.at) // MOST_POINTS))
        some = range(0, len(figures.at), every)
        return {
            "session": session,
            "policy": policy,
            "at": [figures.at[place] for place in some],
            "tokens": [figures.sizes[place] for place in some],
            "read": [figures.read[place] for place in some],
            "edits": figures.edited_at,
        }

    def _lost(self, session: str, policy: str, figures: Figures) -> Json:
        items = [
            {
                "at": each.at,
                "measure": each.measure,
                "what": each.what,
                "seen": each.seen,
                "recoverable": each.recoverable,
            }
            for each in figures.lost
        ]
        return {"session": session, "policy": policy, "more": figures.lost_more, "items": items}
