"""`tidegate lab`: the command around `lab.comparing`."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from tidegate.apps.choices import FAILED, INTERRUPTED, OK
from tidegate.apps.progress import progress
from tidegate.apps.replay import cores
from tidegate.apps.terminal import print_error
from tidegate.core.errors import BadInput
from tidegate.core.terminal_text import clean_line
from tidegate.disk.writing import write_private
from tidegate.lab.cells import Terms, keep_common
from tidegate.lab.comparing import LONGER, Plan, Results, compare, known
from tidegate.lab.contenders import Contender, policy_contender
from tidegate.lab.curve import Curve, read_curve
from tidegate.lab.curve_text import equal_csv
from tidegate.lab.findings import Json, Told, findings
from tidegate.lab.findings_text import as_csv, as_text
from tidegate.lab.gate import Gated, comparable, gate, read_stored
from tidegate.lab.importers import find_mine
from tidegate.lab.importers.reading import files_of
from tidegate.lab.rivals import rivals
from tidegate.lab.sources import PROJECTS, Found, common_names, gathered, look
from tidegate.models.catalog import model_of
from tidegate.models.prices import Rates
from tidegate.presets import names

MODEL = "claude-sonnet-5"
_encode = msgspec.json.Encoder().encode


class Asked(msgspec.Struct, frozen=True):
    """What was asked for. What is not said is taken from a stored result, if there is one, else it is the usual."""

    windows: tuple[int, ...]
    policies: tuple[str, ...]
    count: str
    longer: float
    model: str
    common: str
    curve: str = ""


def asked_for(
    options: argparse.Namespace, windows: Sequence[int], policies: Sequence[str], stored: Json | None = None
) -> Asked:
    setup: Json = stored["setup"] if stored else {}
    windows = windows or setup.get("windows", ())
    if not windows:
        raise BadInput("No window is given.", "Add --window N, the tokens a request may have.")
    return Asked(
        windows=tuple(dict.fromkeys(windows)),
        policies=tuple(dict.fromkeys(policies or setup.get("policies", names()))),
        count=options.count or setup.get("count", "chars/4"),
        longer=options.longer or setup.get("longer", LONGER),
        model=options.model or setup.get("prices", MODEL),
        common=options.common or setup.get("common names", ""),
        curve=getattr(options, "curve", "") or setup.get("curve", ""),
    )


def lab_command(options: argparse.Namespace) -> int:
    stored = read_stored(Path(options.gate)) if options.gate else None
    asked = asked_for(options, options.window, options.policy, stored)
    who = _compared(options, asked)
    if stored is not None and not comparable(stored, asked.windows, [each.key for each in who.all]):
        raise _nothing_to_compare()
    found = read_sources(options, asked.count)
    plan = make_plan(options, found, who.all, asked)
    results, interrupted = _measured(plan, options.jobs or cores())
    told = Told(
        title=f"{len(who.contenders)} policies on recorded sessions",
        made=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        notes=(*notes(asked, found, plan), *who.missing),
        setup=_setup(asked, plan),
        baseline=who.baseline,
        skipped=tuple(found.skipped),
        curve=who.curve,
    )
    report = findings(results, told)
    _write(options, report)
    for skipped in found.skipped:
        print_error(f"skipped: {skipped.name}: {skipped.why}", skipped.remedy)
    for failed in results.failed():
        cell = failed.cell
        print_error(f"failed: {cell.contender.key} on {cell.source.name}: {failed.error}")
    if interrupted:
        print("tidegate: stopped; what is done is kept, the same command goes on", file=sys.stderr)
        return INTERRUPTED
    if stored is not None and _gated(gate(stored, report)):
        return FAILED
    return FAILED if results.failures or any(each.remedy for each in found.skipped) else OK


class _Compared(NamedTuple):
    """Who is compared. Points of the curve are measured like the others, and shown apart from them."""

    contenders: list[Contender]
    curve: Curve | None
    baseline: str
    missing: list[str]

    @property
    def all(self) -> list[Contender]:
        return [*self.contenders, *(self.curve.contenders if self.curve else ())]


def _compared(options: argparse.Namespace, asked: Asked) -> _Compared:
    contenders = [policy_contender(name) for name in asked.policies]
    missing: list[str] = []
    if options.peers or options.peer:
        others = rivals(options.peer)
        contenders += others.contenders
        missing += others.missing
    curve = read_curve(asked.curve, contenders) if asked.curve else None
    return _Compared(contenders, curve, _baseline(options.baseline, contenders), missing)


def _baseline(wanted: str, contenders: Sequence[Contender]) -> str:
    keys = [each.key for each in contenders]
    if len(set(keys)) < len(keys):
        raise BadInput("Two policies have the same name.", "Rename one of the files.")
    if wanted and wanted not in keys:
        raise BadInput(f"The baseline {wanted!r} is not among the policies.", f"Use one of {', '.join(keys)}.")
    return wanted or ("default" if "default" in keys else keys[0])


def cache_folder(named: str) -> Path:
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tidegate" / "lab"


def read_sources(options: argparse.Namespace, count: str) -> Found:
    paths = [Path(path) for path in options.paths]
    files = files_of(paths) if paths else []
    for agent in options.mine:
        files += find_mine(agent)
    if not files:
        raise BadInput("No session is given.", "Name files or folders, or --mine AGENT for your own.")
    jobs, cache = options.jobs or cores(), cache_folder(options.cache)
    seen: list[Found] = []
    with progress("reading", len(files)) as step, closing(look(files, cache, count, jobs)) as stream:
        for each in stream:
            seen.append(each)
            step(1)
    found = gathered(seen)
    if not found.sources:
        first = found.skipped[0]
        raise BadInput(first.why, first.remedy or "Give files that hold sessions.")
    return found


def make_plan(options: argparse.Namespace, found: Found, contenders: Sequence[Contender], asked: Asked) -> Plan:
    cache = cache_folder(options.cache)
    common = _common_in(Path(asked.common)) if asked.common else common_names(found.sources)
    terms = Terms(asked.count, keep_common(common, cache), _rates(asked.model), str(cache))
    # The names have done their work, and every cell would carry them to its process.
    sources = (msgspec.structs.replace(source, names=()) for source in found.sources)
    return Plan(tuple(sources), tuple(contenders), asked.windows, terms, asked.longer)


def _common_in(path: Path) -> frozenset[str]:
    remedy = 'Give a JSON list of names, such as ["README.md", "main.go"].'
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}).", remedy) from None
    except ValueError as error:
        raise BadInput(f"{path}: broken JSON ({error}).", remedy) from None
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise BadInput(f"{path}: not a list of names.", remedy)
    return frozenset(value)


def _rates(model: str) -> tuple[Rates, ...]:
    known_model = model_of(model)
    if known_model is None or not known_model.prices:
        raise BadInput(
            f"The prices of {model!r} are not known.", "Name a model of the catalog, such as claude-sonnet-5."
        )
    return known_model.prices


def _measured(plan: Plan, jobs: int) -> tuple[Results, bool]:
    try:
        with progress("measuring", len(plan.cells())) as step:
            return compare(plan, jobs, step), False
    except KeyboardInterrupt:
        return known(plan), True


def _setup(asked: Asked, plan: Plan) -> Json:
    rates = plan.terms.rates[0]
    return {
        "policies": list(asked.policies),
        "windows": list(asked.windows),
        "count": asked.count,
        "longer": asked.longer,
        "prices": asked.model,
        "dollars for a million tokens": {
            "input": rates.input, "cached": rates.cached, "written": rates.written, "output": rates.output,
        },
        "common names": asked.common,
        "curve": asked.curve,
    }  # fmt: skip


def notes(asked: Asked, found: Found, plan: Plan) -> list[str]:
    timed = sum(source.timed for source in plan.sources)
    said = []
    if not timed:
        said.append("The recordings have no times: nothing expires from the provider's cache.")
    elif timed < len(plan.sources):
        without = len(plan.sources) - timed
        said.append(f"{without} of {len(plan.sources)} recordings have no times: for them no cache entry expires.")
    said.append("Summaries are written by the deterministic summariser; what a model would cost for them is billed.")
    if not asked.common and len({source.project for source in plan.sources}) < PROJECTS:
        said.append(f"Fewer than {PROJECTS} projects: no name could be found to be common, so all count.")
    elif not asked.common:
        said.append(f"Names that the calls of {PROJECTS} projects or more use do not count as references.")
    mended = sum(bool(source.mended) for source in found.sources)
    if mended:
        said.append(f"{mended} recordings had to be mended; the JSON says how.")
    if found.skipped:
        said.append(f"{len(found.skipped)} files or sessions were skipped.")
    return said


def _write(options: argparse.Namespace, report: Json) -> None:
    whole = _encode(report)
    if options.json == "-":
        sys.stdout.buffer.write(whole + b"\n")
    else:
        print(as_text(report))
    sys.stdout.flush()
    if options.json and options.json != "-":
        write_private(Path(options.json), whole)
    if options.csv:
        write_private(Path(options.csv), as_csv(report).encode())
        if report["curve"]:
            write_private(Path(options.csv).with_suffix(".equal-cost.csv"), equal_csv(report).encode())
    if options.html:
        from tidegate.apps.page.lab_page import lab_page

        write_private(Path(options.html), lab_page(whole).encode())
    if options.save:
        small = [{key: each[key] for key in each if key not in ("curves", "lost")} for each in report["windows"]]
        write_private(Path(options.save), _encode({**report, "windows": small}))


def _gated(gated: Gated) -> bool:
    """True if the gate is shut."""
    if not gated.compared:
        raise _nothing_to_compare()
    if gated.unmatched:
        print(f"gate: {gated.unmatched} sessions are in one result only and are not compared", file=sys.stderr)
    for worse in gated.worse:
        print(f"gate: worse: {clean_line(str(worse))}", file=sys.stderr)
    if not gated.worse:
        print(f"gate: {gated.compared} policies are no worse than stored", file=sys.stderr)
    return bool(gated.worse)


def _nothing_to_compare() -> BadInput:
    return BadInput("Nothing to compare: the stored result has none of these policies and windows.", "Save it anew.")
