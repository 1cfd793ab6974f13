"""Rules for shell commands: `allow_commands` and `deny_commands` of `capabilities`.

An allow rule is a list of arguments, written as in a shell, and matches a command with exactly these arguments:

    git status            only `git status`
    git diff *            `git diff` and further arguments, none of which starts with `-`
    git diff --stat *     the option `--stat` is listed, so it may be there; no other option may
    find . -name '*.py'   a quoted `*` is an ordinary character

A command is matched only where the shell would pass on the words as they are written. Operators, redirections,
substitutions, variables, assignments, globs, escapes and line breaks are never matched by an allow rule.

A deny rule matches broadly: its words, in this order, anywhere in the command text, with options between them or not.
"""

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

_PIECE: Final = re.compile(r"""'(?P<single>[^']*)'|"(?P<double>[^"$`\\]*)"|(?P<bare>[^\s'"`$<>(){}\[\]*?;&|\\]+)""")
"""One piece of a word: in single quotes, in double quotes without anything the shell expands there, or bare."""
_EXPANDED: Final = re.compile(r"(?:^|[=:])~|^[#!]")
"""Bare text that the shell does not take as it is: a home folder, a comment, a negation."""
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_DENY_WORDS: Final = re.compile(r"[^\s;&|<>(){}'\"`$]+")


def split_command(command: str) -> tuple[str, ...] | None:
    """Return the arguments that the shell would pass on, or None where the text is more than a plain list of words."""
    if any(not character.isprintable() and character != "\t" for character in command):
        return None
    words: list[str] = []
    place = 0
    while place < len(command):
        if command[place] in " \t":
            place += 1
            continue
        word, before = "", ""
        while place < len(command) and command[place] not in " \t":
            piece = _PIECE.match(command, place)
            if piece is None:
                return None
            bare = piece["bare"]
            if bare is not None and _EXPANDED.search(bare if not before else before[-1] + bare):
                return None
            text = bare if bare is not None else piece["single"] if piece["single"] is not None else piece["double"]
            word, before, place = word + text, before + piece[0], piece.end()
        words.append(word)
    if not words or not words[0] or _ASSIGNMENT.match(words[0]):
        return None
    return tuple(words)


class CommandRule(NamedTuple):
    """`open_ended`: the rule ends with `*` and admits further arguments that are not options."""

    arguments: tuple[str, ...]
    open_ended: bool = False

    def matches(self, arguments: tuple[str, ...]) -> bool:
        size = len(self.arguments)
        if arguments[:size] != self.arguments:
            return False
        further = arguments[size:]
        return not further or (self.open_ended and not any(each.startswith("-") for each in further))

    def covers(self, other: "CommandRule") -> bool:
        """Return whether this rule matches every command that `other` matches."""
        return self.matches(other.arguments) and (self.open_ended or not other.open_ended)


def parse_command_rule(text: str) -> CommandRule | None:
    """Return the allow rule, or None for a text that can match no command."""
    pattern = text.strip(" \t")
    open_ended = pattern.endswith((" *", "\t*"))
    arguments = split_command(pattern[:-1] if open_ended else pattern)
    return None if arguments is None else CommandRule(arguments, open_ended)


def is_command_allowed(rules: tuple[str, ...], command: str) -> bool:
    arguments = split_command(command)
    if arguments is None:
        return False
    return any(rule is not None and rule.matches(arguments) for rule in map(parse_command_rule, rules))


def intersect_command_rules(one: tuple[str, ...], other: tuple[str, ...]) -> frozenset[str]:
    """Return the rules that match exactly the commands that a rule of `one` and a rule of `other` both match.

    Two rules either have no command in common or one covers the other, so the result consists of existing rules.
    """
    return frozenset(_list_covered(one, other)) | frozenset(_list_covered(other, one))


def _list_covered(rules: tuple[str, ...], by: tuple[str, ...]) -> Iterator[str]:
    for text in rules:
        rule = parse_command_rule(text)
        if rule is not None and any(each is not None and each.covers(rule) for each in map(parse_command_rule, by)):
            yield text


def describe_command_rule(text: str) -> str:
    """Return what an allow rule does, as the rest of a sentence that begins with the rule."""
    rule = parse_command_rule(text)
    if rule is None:
        return "matches no command"
    if rule.open_ended:
        return "admits further arguments, but no options other than those it lists"
    return "admits no further arguments"


def suggest_command_rule(text: str) -> str:
    """Return what to write instead of a rule that used to match every command that begins with it."""
    rule = parse_command_rule(text)
    if rule is None:
        return "Write one command without operators or variables; quote special characters; * is for the end alone."
    stem = text.strip(" \t").removesuffix("*").rstrip(" \t") if rule.open_ended else text.strip(" \t")
    listed = f'To allow an option, list it: "{stem} --OPTION *".'
    return listed if rule.open_ended else f'To allow further arguments, write "{stem} *". {listed}'


def is_command_denied(rule: str, command: str) -> bool:
    """Return whether a deny rule matches, also after `sudo`, in quotes, and if a path names the program."""
    words = rule.split()
    while words and words[-1] == "*":
        words.pop()
    unquoted = re.sub(r"['\"\\]", "", command)
    return bool(words) and any(_contains_rule(_DENY_WORDS.findall(text), words) for text in (command, unquoted))


def _contains_rule(words: list[str], rule: list[str]) -> bool:
    """Return whether the words contain those of a rule in order; options with or without a value may be in between."""
    programs = [word.rsplit("/", 1)[-1] or word for word in words]
    ends = [place + 1 for place, word in enumerate(words) if fnmatchcase(word, rule[0])]
    ends += [place + 1 for place, program in enumerate(programs) if fnmatchcase(program, rule[0])]
    for expected in rule[1:]:
        ends = [place + 1 for place in _next_places(words, ends) if fnmatchcase(words[place], expected)]
    return bool(ends)


def _next_places(words: list[str], ends: list[int]) -> Iterator[int]:
    """Yield the places where a rule may go on after any of `ends`, in one pass over the words."""
    starts, may_go_on, after_option = set(ends), False, False
    for place, word in enumerate(words):
        if place in starts:
            may_go_on = True
        if may_go_on or after_option:
            yield place
            option = word.startswith("-")
            may_go_on, after_option = after_option and not option, option
