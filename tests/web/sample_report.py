"""A report of the lab as it comes: two windows, more policies than colours, gaps, and names that would be script."""

import json
import random
from typing import Any

from tests.web.sample_sessions import HOSTILE, SECRET
from tidegate.lab.comparison.report.findings import FINDINGS_FORM

Json = dict[str, Any]

MEASURES = {
    "far": "share",
    "cost": "ratio",
    "held": "tokens",
    "billed": "usd",
    "summaries": "count",
    "pause": "seconds",
}
POLICIES = ["default", "none", "ai", *(f"peer-{number}" for number in range(11))]
SESSIONS = [f"s{number}" for number in range(9)]
POINTS = {"0.5": "default dial=0.5", "1": "default", "4": "default dial=4"}
"""The curve of the default policy: values of its setting, and whose means they are."""


def value(rng: random.Random, unit: str) -> float:
    scale = {"share": 1.0, "ratio": 2.0, "tokens": 30_000.0, "usd": 3.0, "count": 40.0, "seconds": 0.3}[unit]
    return rng.random() * scale


def estimate(rng: random.Random, unit: str, *, gap: bool = False) -> Json:
    mean = value(rng, unit)
    ends = (None, None) if gap else (mean * 0.9, mean * 1.12)
    return {"mean": mean, "low": ends[0], "high": ends[1], "n": len(SESSIONS)}


def window(rng: random.Random, size: int) -> Json:
    pairs = [(session, policy) for policy in POLICIES for session in SESSIONS]
    others = [policy for policy in POLICIES if policy != "none"]
    return {
        "window": size,
        "counts": {"sessions": len(SESSIONS), "projects": 3, "requests": 1234, "beyond": 900, "far": 80, "anchors": 40},
        "resampled": "projects",
        "left_out": [{"session": "short one", "why": HOSTILE[2]}],
        "means": [
            {
                "policy": policy,
                "values": {key: estimate(rng, unit, gap=policy == "ai") for key, unit in MEASURES.items()},
                "totals": {},
            }
            for policy in POLICIES
        ],
        "paired": [
            {"policy": policy, "baseline": "none", "measure": key, "n": 9, "mean": rng.uniform(-1, 1)}
            | {"low": -1.5, "high": 1.5, "verdict": rng.choice(["better", "worse", ""])}
            for policy in others
            for key in ("far", "cost")
        ],
        "points": [
            {"value": value, "policy": key, "beaten": value == "4", "dearer": 2, "totals": {}}
            | {"values": {key: estimate(rng, unit) for key, unit in MEASURES.items()}}
            for value, key in POINTS.items()
        ],
        "equal_cost": [equal(rng, policy, place) for place, policy in enumerate(POLICIES[1:])],
        "verdicts": [
            {"policy": policy, "against": "none", "verdict": "trade", "better": ["far"], "worse": ["cost"]}
            for policy in others
        ],
        "rows": [
            {"session": session, "policy": policy, "error": ""}
            | {"values": {key: None if session == "s8" else value(rng, unit) for key, unit in MEASURES.items()}}
            for session, policy in pairs
        ],
        "worse": [{"session": "s1", "policy": "ai", "measure": "cost", "value": 1.5, "baseline": 1.0}],
        "curves": [
            {"session": session, "policy": policy, "at": list(range(1, 40, 2)), "edits": [7, 21]}
            | {"tokens": [rng.randint(100, size) for _ in range(20)], "read": [50] * 20}
            for session, policy in pairs
        ],
        "lost": [
            {"session": session, "policy": policy, "more": 3, "items": [lost(rng, at) for at in (9, 11, 31)]}
            for session, policy in pairs
        ],
    }


def equal(rng: random.Random, against: str, place: int) -> Json:
    """The verdicts in turn; every third contender is cheaper than the whole curve."""
    word = ("better", "partly better", "trade", "")[place % 4]
    return {
        "against": against,
        "point": POINTS["0.5"],
        "value": "0.5",
        "cost": 0.4,
        "their_cost": 0.3 if place % 3 == 0 else 0.5,
        "dearer": place % 3 == 0,
        "differences": [
            {"measure": key, "mean": rng.uniform(-1, 1), "low": -1.5, "high": 1.5, "n": 9}
            | {"verdict": "better" if key == "far" and "better" in word else ""}
            for key in ("far", "held", "cost")
        ],
        "verdict": word,
        "better": ["far"] if "better" in word else [],
        "worse": [],
    }


def lost(rng: random.Random, at: int) -> Json:
    return {
        "at": at,
        "measure": "far",
        "what": f"password={SECRET} {rng.choice(HOSTILE)}",
        "seen": at - 5,
        "recoverable": rng.choice([True, False, None]),
    }


def report() -> Json:
    rng = random.Random(4)
    made: Json = {
        "form": FINDINGS_FORM,
        "made": "2026-11-15T10:00:00Z",
        "tidegate": "0.1.0",
        "title": f"Policies {HOSTILE[0]}",
        "notes": ["No recorded times: no cache entry expires.", HOSTILE[1]],
        "setup": {
            "policies": POLICIES,
            "windows": [16_000, 32_000],
            "count": "exact",
            "longer": 1.5,
            "prices": "a model",
            "dollars for a million tokens": {"input": 2.0, "cached": 0.2, "written": None, "output": 9.0},
            "common names": "",
            "curve": "",
            "resamples": 1000,
            "level": 0.95,
            "seed": 7,
        },
        "baseline": "none",
        "measures": [
            {"key": key, "name": f"{key} kept", "unit": unit, "better": "less" if key == "cost" else "more"}
            | {"definition": f"How {key} is defined.", "not_shown": f"What {key} hides."}
            for key, unit in MEASURES.items()
        ],
        "frontier": {"x": "cost", "y": "far"},
        "judged": ["far", "cost"],
        "curve": {
            "policy": "default",
            "setting": "dial",
            "points": [{"value": value, "key": key} for value, key in POINTS.items()],
        },
        "policies": [
            {"key": key, "name": key, "kind": "peer", "about": f"About {key}.", "stamp": ""} for key in POLICIES
        ],
        "sessions": [
            {"key": key, "name": f"session {key}", "project": HOSTILE[1], "agent": "x", "calls": 20, "tokens": 90_000}
            | {"mended": []}
            for key in SESSIONS
        ],
        "windows": [window(rng, 16_000), window(rng, 32_000)],
        "skipped": [{"name": "bad file", "why": "it is empty", "remedy": ""}],
        "failures": [{"session": "s2", "policy": "ai", "window": 16_000, "why": "it broke"}],
        "unfinished": 0,
    }
    plain: Json = json.loads(json.dumps(made))
    return plain
