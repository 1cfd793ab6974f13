"""The parser of policy files.

An error is a BadPolicy that names file, line, key and the most similar valid name. A file that parses is ready to run:
all its stages, settings, triggers and expressions have been looked up and evaluated.
"""

import inspect
import re
from collections.abc import Collection, Mapping
from functools import cache, reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec

from tidegate.core.budget import UNKNOWN_WINDOW
from tidegate.core.config.values import (
    MAX_NUMBER,
    TYPE_NAMES,
    Number,
    Scalar,
    SourcePosition,
    check_scalar,
    check_setting_names,
    convert_value,
    describe_type,
    evaluate_number,
    evaluate_string,
    have_same_spelling,
    match_spelling,
    quote_value,
    suggest_name,
)
from tidegate.core.config.yaml_tree import YamlNode, read_yaml
from tidegate.core.errors import BadInput
from tidegate.core.policy.external_stage import ExternalStage
from tidegate.core.policy.policy import COMPARISONS, METRICS, MOMENTS, Policy, PolicyContext, Rule, Stage, Trigger
from tidegate.core.sweep.cost_model import Holding

POLICY_KEYS = (
    "name about settings aliases context reserve max_output meter window default_window unknown_window unknown_limit"
    " recoveries retention holding moments".split()
)
RULE_KEYS = ("stage", "id", "if", "when", "cooldown", "floor")
_FLAG_METRICS = frozenset({"unlimited", "new_turn"})
"""Metrics that may be compared with true and false."""

_SHARE_METRICS = frozenset({"pressure", "window_share", "history_share"})
"""Metrics that are a share of the window."""

_Settings = dict[str, Scalar]


def parse_policy(
    text: str | YamlNode,
    *,
    source: str,
    stages: Mapping[str, Stage],
    settings: Mapping[str, object] | None = None,
    ignore_unknown: bool = False,
) -> Policy:
    """Parse a policy, from its text or from what `read_yaml` made of it. `settings` override those of the file;
    `ignore_unknown` ignores keys that it does not declare.
    """
    tree = read_yaml(text, source) if isinstance(text, str) else text
    top = tree.fields("a policy", POLICY_KEYS)
    declared = _declared(top)
    values = _override_settings(declared, settings or {}, source=source, ignore_unknown=ignore_unknown)
    positions: dict[str, SourcePosition] = {}
    moments: dict[str, tuple[Rule, ...]] = {}
    if "moments" in top:
        for moment, node in top["moments"].fields("moments", MOMENTS, "moment").items():
            rules = [_rule(rule, moment, values, stages, positions) for rule in node.items(f"moment {moment}")]
            moments[moment] = tuple(rule for rule in rules if rule is not None)
        _check_choices(values, _compared_values(top["moments"], declared.settings), SourcePosition(source, 0))
    stem = source.replace("\\", "/").rpartition("/")[2].removesuffix(".yaml")
    return Policy(
        name=top["name"].text("name") if "name" in top else stem,
        about=top["about"].text("about").strip() if "about" in top else "",
        settings=values,
        aliases=declared.aliases,
        moments=moments,
        reserve=int(_number(top.get("reserve"), "reserve", values)),
        meter=_meter(top["meter"]) if "meter" in top else "",
        window=_tokens(top.get("window"), "window", values),
        default_window=_tokens(top.get("default_window"), "default_window", values),
        unknown_window=_unknown_window(top, values),
        max_output=_tokens(top.get("max_output"), "max_output", values) or 0,
        unknown_limit=_tokens(top.get("unknown_limit"), "unknown_limit", values),
        retention=_tokens(top.get("retention"), "retention", values) or 0,
        recoveries=int(_number(top["recoveries"], "recoveries", values)) if "recoveries" in top else 2,
        context=_context(top["context"], declared.settings, _rule_ids(top.get("moments")))
        if "context" in top
        else None,
        holding=_holding(top["holding"], values) if "holding" in top else None,
    )


def _holding(node: YamlNode, settings: _Settings) -> Holding:
    """The terms for a sweep before the room is full."""
    fields = node.fields("holding", Holding._fields)
    least = int(_number(fields.get("least"), "least in holding", settings))
    leaves = float(_number(fields.get("leaves"), "leaves in holding", settings, whole=False))
    return Holding(least, min(leaves, 1.0))


def _context(node: YamlNode, settings: _Settings, rule_ids: Collection[str]) -> PolicyContext:
    """What this policy takes over of an agent's context: keys that are settings of it, and a rule by its id."""
    fields = node.fields("context", ("settings", "automatic_rule"))
    names: set[str] = set()
    for each in fields["settings"].items("settings of context") if "settings" in fields else ():
        if (name := each.text("a setting of context")) not in settings:
            raise each.place.make_error(f"context names no setting: {quote_value(name)}.", suggest_name(name, settings))
        names.add(name)
    rule = fields.get("automatic_rule")
    if rule is not None and rule.text("automatic_rule") not in rule_ids:
        remedy = suggest_name(rule.text("automatic_rule"), rule_ids)
        raise rule.place.make_error(f"automatic_rule names no rule: {rule}.", remedy)
    return PolicyContext(frozenset(names), rule.text("automatic_rule") if rule is not None else "")


def _rule_ids(moments: YamlNode | None) -> set[str]:
    """The ids of all rules, also of those that do not apply with these settings."""
    nodes = moments.mapping("moments").values() if moments is not None else ()
    rules = (rule.mapping("a rule") for node in nodes for rule in node.items("a moment"))
    return {rule["id"].text("id") for rule in rules if "id" in rule}


class _DeclaredSettings(NamedTuple):
    """The settings that a policy declares, and aliases for their names."""

    settings: _Settings
    aliases: dict[str, str]


def _declared(top: Mapping[str, YamlNode]) -> _DeclaredSettings:
    settings: _Settings = {}
    aliases: dict[str, str] = {}
    for key, node in (top["settings"].mapping("settings") if "settings" in top else {}).items():
        if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", key):
            raise node.key.make_error(
                f"setting {quote_value(key)} has a bad name.", "Use letters, digits and underscores."
            )
        if isinstance(node.value, list | dict):
            remedy = "Give a number, text, true, false or null."
            raise node.place.make_error(f"setting {quote_value(key)} is {node}.", remedy)
        settings[key] = node.value
    for key, node in (top["aliases"].mapping("aliases") if "aliases" in top else {}).items():
        if (name := node.text(f"alias {quote_value(key)}")) not in settings:
            raise node.place.make_error(
                f"alias {quote_value(key)} names no setting: {quote_value(name)}.", suggest_name(name, settings)
            )
        if key in settings or not re.fullmatch("[A-Za-z_][A-Za-z0-9_.-]*", key):
            what = "is a setting itself" if key in settings else "has a bad name"
            raise node.key.make_error(f"alias {quote_value(key)} {what}.", "Give it another name.")
        aliases[key] = name
    return _DeclaredSettings(settings, aliases)


def _override_settings(
    declared: _DeclaredSettings, values: Mapping[str, object], *, source: str, ignore_unknown: bool = False
) -> _Settings:
    """The settings with these values, each of the type of its default. A number may be null."""
    place = SourcePosition(source, 0)
    settings, spellings = dict(declared.settings), dict[str, str]()
    if not isinstance(values, Mapping):
        raise place.make_error(
            f"the settings handed in are {quote_value(values)}.", "Give a mapping of names and values."
        )
    for name, value in values.items():
        proper = match_spelling(name, [*settings, *declared.aliases]) if isinstance(name, str) else name
        real = declared.aliases.get(proper, proper)
        if real not in settings:
            if ignore_unknown:
                continue
            raise place.make_error(
                f"unknown setting {quote_value(name)}.", suggest_name(str(name), [*settings, *declared.aliases])
            )
        if real in spellings:
            raise place.make_error(f'"{spellings[real]}" and "{name}" are the same setting.', "Give it once.")
        spellings[real] = name
        default = declared.settings[real]
        hint: Any = Scalar if default is None else type(default)
        hint = hint | None if hint in (int, float) else hint
        if isinstance(value, Number):
            check_scalar(value, place)
        if isinstance(default, Number) and not isinstance(default, bool) and default >= 0:
            hint = _limit_numbers(hint)
        settings[real] = check_scalar(convert_value(value, hint, f"setting {quote_value(name)}", place), place)
    return settings


def _compared_values(moments: YamlNode, settings: _Settings) -> dict[str, set[str]]:
    """The texts that a setting may have: its default, and those with which some `if` compares it."""
    values: dict[str, set[str]] = {}
    nodes = moments.mapping("moments").values()
    for rule in (rule.mapping("a rule") for node in nodes for rule in node.items("a moment")):
        for key, choice_node in (rule["if"].mapping("if") if "if" in rule else {}).items():
            default = settings.get(key)
            if isinstance(default, str):
                choices = choice_node.value if isinstance(choice_node.value, list) else [choice_node]
                values.setdefault(key, {default}).update(each.value for each in choices if isinstance(each.value, str))
    return values


def _check_choices(settings: _Settings, choices: Mapping[str, set[str]], place: SourcePosition) -> None:
    for key, choice_names in choices.items():
        value = settings[key]
        if (
            isinstance(value, str)
            and match_spelling(value, choice_names) not in choice_names
            and not any("$" in x for x in choice_names)
        ):
            raise place.make_error(
                f"setting {quote_value(key)} is {quote_value(value)}, which this policy does not know.",
                suggest_name(value, choice_names),
            )


def _rule(
    node: YamlNode,
    moment: str,
    settings: _Settings,
    stages: Mapping[str, Stage],
    name_places: dict[str, SourcePosition],
) -> Rule | None:
    """One rule, or None if its `if` excludes it. Everything that needs no values is checked in both cases."""
    fields = node.mapping(f"a rule of {moment}")
    if "stage" not in fields:
        raise node.place.make_error(
            f"a rule of {moment} names no stage.", f'Add the key "stage". {suggest_name("", stages)}'
        )
    stage, run = _find_stage(fields["stage"], stages)
    parameters = _parameters(run)
    fields = node.fields(f"stage {stage}", [*RULE_KEYS, *parameters])
    for name, parameter in parameters.items():
        if parameter.required and name not in fields:
            raise node.place.make_error(f'stage {stage} needs "{name}".', f"Give it {describe_type(parameter.hint)}.")
    _check_names(node, settings)
    when = _conditions(fields["when"]) if "when" in fields else []
    applies = "if" not in fields or _applies(fields["if"], settings)
    if not applies and "id" in fields:  # two rules of which only one applies may share an id
        return None
    name = _rule_name(fields.get("id"), f"{moment}/{stage}", node.place, name_places)
    if not applies:
        return None
    cooldown = fields["cooldown"].fields("cooldown", ("turns", "seconds")) if "cooldown" in fields else {}
    return Rule(
        name=name,
        stage=stage,
        run=run,
        settings={
            key: convert_value(
                _value(fields[key], settings),
                parameter.hint,
                _describe_parameter(key, stage, fields[key]),
                fields[key].place,
            )
            for key, parameter in parameters.items()
            if key in fields
        },
        when=tuple(tuple(test.trigger(settings) for test in tests) for tests in when),
        cooldown_turns=int(_number(cooldown.get("turns"), "turns in cooldown", settings)),
        cooldown_seconds=float(_number(cooldown.get("seconds"), "seconds in cooldown", settings, whole=False)),
        floor=int(_number(fields.get("floor"), "floor", settings)),
    )


def _find_stage(node: YamlNode, stages: Mapping[str, Stage]) -> tuple[str, Stage]:
    """The name and the function of a stage. `stages` may raise BadInput for one that it cannot load."""
    try:
        name = match_spelling(node.text("stage"), stages)
        if name in stages:
            return name, stages[name]
    except BadInput as broken:
        raise node.place.make_error(broken.args[0], broken.remedy) from broken
    raise node.place.make_error(f"unknown stage {quote_value(name)}.", suggest_name(name, stages))


def _rule_name(
    node: YamlNode | None, default: str, place: SourcePosition, name_places: dict[str, SourcePosition]
) -> str:
    """The name of a rule in the log. A rule that its `if` excludes still takes its number."""
    if node is None:
        name, repeat = default, 1
        while name in name_places:
            repeat += 1
            name = f"{default}-{repeat}"
    else:
        name, place = node.text("id"), node.place
        if name in name_places:
            raise place.make_error(
                f"id {quote_value(name)} is taken by line {name_places[name].line}.", "Give each rule its own."
            )
    name_places[name] = place
    return name


def _describe_parameter(key: str, stage: str, node: YamlNode) -> str:
    """What an error calls a parameter. If its value is a setting, the user changed that."""
    setting = re.fullmatch(r"\$(\w+)", node.value) if isinstance(node.value, str) else None
    place = f'"{key}" in stage {stage}'
    return f'setting "{setting[1]}" ({place})' if setting else place


class _StageParameter(NamedTuple):
    hint: Any
    required: bool


def _limit_numbers(hint: Any) -> Any:
    """The same type, with numbers that are 0 or more unless it has limits of its own."""
    if hint in (int, float):
        return Annotated[hint, msgspec.Meta(ge=0)]
    if get_origin(hint) in (Union, UnionType):
        return reduce(or_, map(_limit_numbers, get_args(hint)))
    return hint


@cache
def _parameters(stage: Stage) -> dict[str, _StageParameter]:
    """The settings of a stage: the keyword-only parameters in the signature of its function."""
    function = stage.run if isinstance(stage, ExternalStage) else stage
    hints = get_type_hints(function, include_extras=True)
    return {
        name: _StageParameter(_limit_numbers(hints.get(name, Any)), parameter.default is inspect.Parameter.empty)
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }


def _check_names(node: YamlNode, settings: _Settings) -> None:
    if isinstance(node.value, str):
        check_setting_names(node.value, settings, node.place)
    elif isinstance(node.value, list | dict):
        for inner in node.value if isinstance(node.value, list) else node.value.values():
            _check_names(inner, settings)


def _applies(node: YamlNode, settings: _Settings) -> bool:
    """Whether all settings have the wanted value, or one of a list. True is not 1, but 1.0 is."""
    for key, choice_node in node.fields("if", settings, "setting").items():
        value = settings[key]
        choices = [
            _value(choice, settings)
            for choice in (choice_node.value if isinstance(choice_node.value, list) else [choice_node])
        ]
        if not all(isinstance(choice, Scalar) for choice in choices):
            raise choice_node.place.make_error(
                f"{quote_value(key)} in if is {choice_node}.", "Give a value, or a list of values."
            )
        if not any(_is_same_value(choice, value) for choice in choices):
            return False
    return True


def _is_same_value(one: Scalar, other: Scalar) -> bool:
    equal = one == other and isinstance(one, bool) == isinstance(other, bool)
    return equal or have_same_spelling(one, other)


class _TriggerTest(NamedTuple):
    """A trigger whose number is not evaluated yet."""

    metric: str
    op: str
    number: YamlNode

    def trigger(self, settings: _Settings) -> Trigger:
        value = self.number.value
        if isinstance(value, str):
            value = evaluate_number(value, settings, self.number.place)
        if not isinstance(value, Number):
            raise self.number.place.make_error(f"{self.metric} is compared with {self.number}.", "Give a number.")
        if not 0 <= value <= (1 if self.metric in _SHARE_METRICS else MAX_NUMBER):
            allowed = "from 0 to 1" if self.metric in _SHARE_METRICS else "that is 0 or more"
            quotation = self.number if value == self.number.value else f"{self.number}, which is {quote_value(value)}"
            raise self.number.place.make_error(
                f"{self.metric} is compared with {quotation}.", f"Give a number {allowed}."
            )
        return Trigger(self.metric, self.op, float(value))


def _conditions(node: YamlNode) -> list[list[_TriggerTest]]:
    """`when`: a mapping of which all must hold, or a list of such mappings of which one must."""
    choices = node.value if isinstance(node.value, list) else [node]
    return [[_test(k, n) for k, n in choice.fields("when", METRICS, "metric").items()] for choice in choices]


def _test(metric: str, node: YamlNode) -> _TriggerTest:
    if isinstance(node.value, bool) and metric in _FLAG_METRICS:
        return _TriggerTest(metric, "==", node._replace(value=int(node.value)))
    if isinstance(node.value, bool) or not isinstance(node.value, Number | str):
        raise node.place.make_error(f"{metric} is compared with {node}.", 'Give a number, or text such as "> 20".')
    if not isinstance(node.value, str):
        return _TriggerTest(metric, ">", node)
    match = re.match(r"\s*([^\s\w$.()+-]*)\s*", node.value)
    op, rest = (match[1], node.value[match.end() :]) if match else ("", node.value)
    if op and op not in COMPARISONS:
        raise node.place.make_error(
            f"unknown comparison {quote_value(op)} for {metric}.", f"Use {', '.join(COMPARISONS)}."
        )
    return _TriggerTest(metric, op or ">", node._replace(value=rest))


def _number(node: YamlNode | None, what: str, settings: _Settings, *, whole: bool = True) -> Number:
    """A number that is not below 0; 0 if the key is missing."""
    if node is None:
        return 0
    value = evaluate_number(node.value, settings, node.place) if isinstance(node.value, str) else node.value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int if whole else Number) or value < 0:
        quotation = str(node) if value == node.value else f"{node}, which is {quote_value(value)}"
        raise node.place.make_error(
            f"{what} is {quotation}.", f"Give {TYPE_NAMES[int if whole else float]}, 0 or more."
        )
    return value


def _tokens(node: YamlNode | None, what: str, settings: _Settings) -> int | None:
    """A number of tokens, or None if the key is missing or its setting is null."""
    if node is None or _value(node, settings) is None:
        return None
    return int(_number(node, what, settings))


def _unknown_window(top: Mapping[str, YamlNode], settings: _Settings) -> int | None:
    """The window to assume for an unknown model; None (0 in the file) if this policy handles it otherwise."""
    if "unknown_window" in top:
        return _tokens(top["unknown_window"], "unknown_window", settings) or None
    return None if "unknown_limit" in top else UNKNOWN_WINDOW


def _value(node: YamlNode, settings: _Settings) -> Any:
    if isinstance(node.value, list):
        return [_value(item, settings) for item in node.value]
    if isinstance(node.value, dict):
        return {key: _value(item, settings) for key, item in node.value.items()}
    return evaluate_string(node.value, settings, node.place) if isinstance(node.value, str) else node.value


def _meter(node: YamlNode) -> str:
    meter = node.text("meter").replace(" ", "")
    match = re.fullmatch(r"chars/([0-9]{1,6}(?:\.[0-9]{1,6})?)", meter)
    if match is None or not float(match[1]):
        raise node.place.make_error(f"meter is {node}.", 'Write "chars/4": so many characters to a token.')
    return meter
