"""The result of a comparison as data: text, CSV, the page and the gate are made from it.

Field names are the keys of the JSON that `tidegate lab --json` and `--save` write, the form "tidegate-lab/1".
"""

from typing import Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from tidegate.core.errors import BadInput
from tidegate.lab.comparison.confidence_intervals import RESAMPLE_COUNT, RESAMPLE_SEED, MeanEstimate

FINDINGS_FORM: Final = "tidegate-lab/1"

ResampledUnit = Literal["projects", "sessions", ""]
"""What intervals are drawn over; "" where there are too few sessions for any."""


class SetupRates(msgspec.Struct, frozen=True):
    """Dollars for a million tokens."""

    input: float
    cached: float | None
    written: float | None
    output: float


class FindingsSetup(msgspec.Struct, frozen=True):
    """The options of the run. A later run with `--gate` takes from here what its own options leave open."""

    policies: tuple[str, ...]
    windows: tuple[int, ...]
    count: str
    longer: float
    prices: str
    rates: SetupRates = msgspec.field(name="dollars for a million tokens")
    common_names: str = msgspec.field(name="common names", default="")
    curve: str = ""
    resamples: int = RESAMPLE_COUNT
    level: float = 0.95
    seed: int = RESAMPLE_SEED


class MeasureEntry(msgspec.Struct, frozen=True):
    key: str
    name: str
    unit: str
    better: str
    definition: str
    not_shown: str


class FrontierAxes(msgspec.Struct, frozen=True):
    """The measures of the chart of fidelity over cost."""

    x: str
    y: str


class PolicyEntry(msgspec.Struct, frozen=True):
    key: str
    name: str
    kind: str
    about: str
    stamp: str


class CurvePointEntry(msgspec.Struct, frozen=True):
    value: str
    key: str


class CurveEntry(msgspec.Struct, frozen=True):
    policy: str
    setting: str
    points: tuple[CurvePointEntry, ...]


class SessionEntry(msgspec.Struct, frozen=True):
    """A recording. `mended` lists the repairs made when it was read."""

    key: str
    name: str
    project: str
    agent: str
    calls: int
    tokens: int
    mended: tuple[str, ...]


class SkippedEntry(msgspec.Struct, frozen=True):
    name: str
    why: str
    remedy: str


class FailureEntry(msgspec.Struct, frozen=True):
    session: str
    policy: str
    window: int
    why: str


class WindowCounts(msgspec.Struct, frozen=True):
    """`beyond` counts requests whose history is longer than the window; `far` and `anchors` are far references."""

    sessions: int
    projects: int
    requests: int
    beyond: int
    far: int
    anchors: int


class LeftOutEntry(msgspec.Struct, frozen=True):
    session: str
    why: str


class PolicyMeans(msgspec.Struct, frozen=True):
    """By measure: means over sessions, and sums."""

    policy: str
    values: dict[str, MeanEstimate]
    totals: dict[str, float]


class CurvePointMeans(msgspec.Struct, frozen=True):
    """`beaten`: another point costs no more and keeps no less. `dearer`: sessions that cost more than unmanaged."""

    value: str
    beaten: bool
    dearer: int
    policy: str
    values: dict[str, MeanEstimate]
    totals: dict[str, float]


class PairedDifference(msgspec.Struct, frozen=True):
    """The policy's value less the baseline's, over the sessions both have. `verdict` is better, worse or ""."""

    policy: str
    baseline: str
    measure: str
    mean: float | None
    low: float | None
    high: float | None
    session_count: int = msgspec.field(name="n")
    verdict: str


class MeasuredDifference(msgspec.Struct, frozen=True):
    measure: str
    mean: float | None
    low: float | None
    high: float | None
    session_count: int = msgspec.field(name="n")
    verdict: str


class PairVerdict(msgspec.Struct, frozen=True):
    """`verdict` is better, worse, trade or ""; `better` and `worse` list measures."""

    policy: str
    against: str
    verdict: str
    better: tuple[str, ...]
    worse: tuple[str, ...]


class EqualCostEntry(msgspec.Struct, frozen=True):
    """The curve against one contender. `dearer`: even the cheapest point costs more than the contender."""

    against: str
    point: str
    value: str
    cost: float
    their_cost: float
    dearer: bool
    differences: tuple[MeasuredDifference, ...]
    verdict: str
    better: tuple[str, ...]
    worse: tuple[str, ...]


class SessionValues(msgspec.Struct, frozen=True):
    """The values of one session under one policy, by measure; with an error there are none."""

    session: str
    policy: str
    values: dict[str, float | None]
    error: str


class NegativeCase(msgspec.Struct, frozen=True):
    """A session in which managing costs more than sending the whole history."""

    session: str
    policy: str
    measure: str
    value: float
    baseline: float


class RequestSeries(msgspec.Struct, frozen=True):
    """The requests of a session over time: message indices, tokens sent, tokens read from the cache, edits."""

    session: str
    policy: str
    at: tuple[int, ...]
    tokens: tuple[int | None, ...]
    read: tuple[int | None, ...]
    edits: tuple[int, ...]


class LossEntry(msgspec.Struct, frozen=True):
    at: int
    measure: str
    what: str
    seen: int
    recoverable: bool | None


class SessionLosses(msgspec.Struct, frozen=True):
    """What a session lost under a policy; `more` counts losses that are not listed."""

    session: str
    policy: str
    more: int
    items: tuple[LossEntry, ...]


class WindowFindings(msgspec.Struct, frozen=True):
    """The findings of one window. `curves` and `lost`, most of the bytes, are left out of what `--save` writes."""

    window: int
    counts: WindowCounts
    resampled: ResampledUnit
    left_out: tuple[LeftOutEntry, ...]
    means: tuple[PolicyMeans, ...]
    paired: tuple[PairedDifference, ...]
    verdicts: tuple[PairVerdict, ...]
    points: tuple[CurvePointMeans, ...]
    equal_cost: tuple[EqualCostEntry, ...]
    rows: tuple[SessionValues, ...]
    worse: tuple[NegativeCase, ...]
    curves: tuple[RequestSeries, ...] | UnsetType = UNSET
    lost: tuple[SessionLosses, ...] | UnsetType = UNSET


class Findings(msgspec.Struct, frozen=True):
    form: str
    made: str
    tidegate: str
    title: str
    notes: tuple[str, ...]
    setup: FindingsSetup
    baseline: str
    measures: tuple[MeasureEntry, ...]
    frontier: FrontierAxes
    judged: tuple[str, ...]
    policies: tuple[PolicyEntry, ...]
    curve: CurveEntry | None
    sessions: tuple[SessionEntry, ...]
    windows: tuple[WindowFindings, ...]
    skipped: tuple[SkippedEntry, ...]
    failures: tuple[FailureEntry, ...]
    unfinished: int

    def without_details(self) -> "Findings":
        """The findings without requests over time and losses."""
        windows = tuple(msgspec.structs.replace(each, curves=UNSET, lost=UNSET) for each in self.windows)
        return msgspec.structs.replace(self, windows=windows)


class _FormHeader(msgspec.Struct):
    form: str = ""


def decode_findings(data: bytes, source: str) -> Findings:
    """Decode what `--json` or `--save` wrote. `source` names it in the error."""
    remedy = "Give a file that `tidegate lab --save FILE` or `--json FILE` wrote."
    try:
        form = msgspec.json.decode(data, type=_FormHeader).form
        if form == FINDINGS_FORM:
            return msgspec.json.decode(data, type=Findings)
    except msgspec.ValidationError as error:
        raise BadInput(f"{source}: not a result of the lab ({error}).", remedy) from None
    except msgspec.DecodeError as error:
        raise BadInput(f"{source}: broken JSON ({error}).", remedy) from None
    raise BadInput(f"{source}: not a result of the lab.", remedy)
