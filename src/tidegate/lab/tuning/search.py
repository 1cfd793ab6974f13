"""Search the settings of a policy on one part of the sessions, and judge the result on the other part.

Settings that fit the sessions they were chosen on prove nothing. Projects are therefore split in two before the search,
and the report is made on the part that the search never saw. Everything is seeded: the same search gives the same
result.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from tidegate.core.errors import BadInput, BadPolicy
from tidegate.lab.comparison.confidence_intervals import (
    MeanEstimate,
    SessionSample,
    estimate_difference,
    estimate_mean,
    judge_difference,
)
from tidegate.lab.comparison.contenders import Contender, SettingOverrides, make_policy_contender
from tidegate.lab.comparison.runner import ComparisonPlan, ComparisonResults, group_sessions, run_comparison
from tidegate.lab.comparison.session_sources import SessionSource
from tidegate.lab.scoring.measures import FIDELITY_KEYS, MEASURES_BY_KEY
from tidegate.lab.scoring.session_figures import SessionFigures
from tidegate.lab.tuning.settings import TunableSetting
from tidegate.lab.worker_pool import ProcessEngine

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.trial import Trial

_PARALLEL_TRIALS: Final = 4
"""Trials begun at once. Fixed, so that what is found does not depend on how many cores there are."""
_COST_PENALTY: Final = 2.0
"""What a cost above that of the beginning takes from the worth, for each time it is as dear again."""
_BROKEN_PENALTY: Final = 1.0
_REPORTED_KEYS: Final = (*FIDELITY_KEYS, "cost", "billed_ratio", "summaries")


class SessionSplit(NamedTuple):
    """`by` is what was divided: projects, or sessions where all are of one project."""

    tuning_sources: list[SessionSource]
    report_sources: list[SessionSource]
    divided_by: str


class MeasureChange(NamedTuple):
    """One measure on the held-out part: before, after, and the paired difference."""

    measure_key: str
    before: MeanEstimate
    after: MeanEstimate
    difference: MeanEstimate
    verdict: str


class TuningResult(NamedTuple):
    """The result of a search. `settings` is empty if nothing better was found."""

    settings: SettingOverrides
    score: float
    baseline_score: float
    trial_count: int
    split: SessionSplit
    changes: list[MeasureChange]


def split_sessions(sources: Sequence[SessionSource], seed: int) -> SessionSplit:
    """Split sessions into two parts of about the same size, with no project in both."""
    by_project: dict[str, list[SessionSource]] = {}
    for source in sources:
        by_project.setdefault(source.project, []).append(source)
    by = "projects"
    if len(by_project) < 2:
        by_project = {source.content_hash: [source] for source in sources}
        by = "sessions"
    if len(by_project) < 2:
        raise BadInput(
            f"{len(sources)} session is long enough: there must be two to tune on one and report on the other.",
            "Give more sessions, or a smaller window.",
        )
    names = sorted(by_project)
    random.Random(seed).shuffle(names)
    names.sort(key=lambda name: -len(by_project[name]))
    parts: tuple[list[SessionSource], list[SessionSource]] = ([], [])
    for name in names:
        min(parts, key=len).extend(by_project[name])
    return SessionSplit(parts[0], parts[1], by)


def score_figures(figures: Mapping[str, SessionFigures], before: Mapping[str, SessionFigures]) -> float:
    """Return the mean fidelity less a penalty for added cost; a broken request outweighs everything."""
    fidelities, cost, cost_before = [], 0.0, 0.0
    broken = 0.0
    for session, each in figures.items():
        values, then = each.compute_measures(), before[session].compute_measures()
        some = [value for key in FIDELITY_KEYS if (value := values[key]) is not None]
        fidelities += [sum(some) / len(some)] if some else []
        cost += values["billed_ratio"] or 0.0
        cost_before += then["billed_ratio"] or 0.0
        broken += sum((values[key] or 0) > (then[key] or 0) for key in ("over", "failed", "invalid"))
    dearer = max(0.0, cost / cost_before - 1) if cost_before else 0.0
    return (
        (sum(fidelities) / len(fidelities) if fidelities else 0.0)
        - _COST_PENALTY * dearer
        - _BROKEN_PENALTY * bool(broken)
    )


class SettingsSearch:
    """A search that starts at `policy`."""

    def __init__(
        self, plan: ComparisonPlan, policy: str, knobs: Sequence[TunableSetting], seed: int, jobs: int
    ) -> None:
        (self._window,) = plan.windows
        self._plan = plan
        self._policy = policy
        self._tunable = knobs
        self._jobs = jobs
        self._seed = seed
        self._baseline = make_policy_contender(policy)
        self.split = split_sessions(plan.sources_for(self._window), seed)

    def run(
        self, trials: int, values: Mapping[str, float], step: Callable[[int], None] = lambda _: None
    ) -> TuningResult:
        before = self._measure([self._baseline], self.split.tuning_sources).figures_of(self._window, self._baseline.key)
        worth_before = score_figures(before, before)
        best: SettingOverrides = ()
        most = worth_before
        study = _create_study(self._seed)
        study.enqueue_trial({knob.name: values[knob.name] for knob in self._tunable})
        bounds = _make_distributions(self._tunable)
        count = 0
        while count < trials:
            trials_to_run = [study.ask(bounds) for _ in range(min(_PARALLEL_TRIALS, trials - count))]
            results = self._score_trials(trials_to_run, before)
            for trial, (settings, value) in zip(trials_to_run, results, strict=True):
                study.tell(trial, value)
                if value > most + 1e-9:
                    best, most = settings, value
                count += 1
                step(1)
        return TuningResult(best, most, worth_before, count, self.split, self._measure_changes(best) if best else [])

    def _score_trials(
        self, trials_to_run: Sequence["Trial"], before: Mapping[str, SessionFigures]
    ) -> list["_ScoredTrial"]:
        """Return the score of each trial; settings that make no valid policy score lower than any other."""
        contenders: dict[str, Contender] = {}
        overrides: list[SettingOverrides] = []
        for trial in trials_to_run:
            settings = tuple((knob.name, knob.format_value(trial.params[knob.name])) for knob in self._tunable)
            overrides.append(settings)
            try:
                contenders[str(trial.number)] = make_policy_contender(
                    self._policy, settings, key=f"trial {trial.number}"
                )
            except BadPolicy:
                continue
        results = self._measure(list(contenders.values()), self.split.tuning_sources)
        trials = []
        for trial, settings in zip(trials_to_run, overrides, strict=True):
            contender = contenders.get(str(trial.number))
            figures = results.figures_of(self._window, contender.key) if contender else {}
            whole = len(figures) == len(before)
            trials.append(_ScoredTrial(settings, score_figures(figures, before) if whole else -2 * _BROKEN_PENALTY))
        return trials

    def _measure(self, contenders: Sequence[Contender], sources: Sequence[SessionSource]) -> ComparisonResults:
        plan = ComparisonPlan(
            tuple(sources), tuple(contenders), (self._window,), self._plan.terms, self._plan.min_windows
        )
        return run_comparison(plan, ProcessEngine(self._jobs))

    def _measure_changes(self, settings: SettingOverrides) -> list[MeasureChange]:
        """Measure the changes on the held-out part only."""
        after = make_policy_contender(self._policy, settings, key="tuned")
        aside = self.split.report_sources
        results = self._measure([self._baseline, after], aside)
        groups = group_sessions(aside).by_session
        lines = []
        for measure in _REPORTED_KEYS:
            old, new = (
                {
                    key: figures.compute_measures()[measure]
                    for key, figures in results.figures_of(self._window, who).items()
                }
                for who in (self._baseline.key, after.key)
            )
            before, now = (
                estimate_mean([SessionSample(groups[key], value) for key, value in values.items()])
                for values in (old, new)
            )
            difference = estimate_difference(new, old, groups)
            lines.append(
                MeasureChange(
                    measure, before, now, difference, judge_difference(difference, MEASURES_BY_KEY[measure].better)
                )
            )
        return lines


class _ScoredTrial(NamedTuple):
    settings: SettingOverrides
    score: float


def _create_study(seed: int) -> "Study":
    try:
        import optuna  # noqa: PLC0415 - an extra: only who tunes needs it
    except ImportError:
        raise BadInput("The optimizer is not installed.", "Run: pip install 'tidegate[tune]'") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))


def _make_distributions(knobs: Sequence[TunableSetting]) -> dict[str, "BaseDistribution"]:
    from optuna.distributions import FloatDistribution, IntDistribution  # noqa: PLC0415

    distributions: dict[str, BaseDistribution] = {}
    for knob in knobs:
        if knob.is_integer:
            distributions[knob.name] = IntDistribution(round(knob.low), round(knob.high), log=knob.is_logarithmic)
        else:
            distributions[knob.name] = FloatDistribution(knob.low, knob.high, log=knob.is_logarithmic)
    return distributions
