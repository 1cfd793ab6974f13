"""A call's arguments as a person reads them. Nothing of a screen is needed for it."""

import json


def subject_of(arguments: str) -> str:
    """What a call is about: the first text among its arguments."""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    texts = [each for each in value.values() if isinstance(each, str)] if isinstance(value, dict) else []
    return texts[0] if texts else "" if value in ({}, None) else arguments


def pretty(arguments: str) -> str:
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    if not isinstance(value, dict):
        return arguments
    return "\n".join(f"{key}: {each if isinstance(each, str) else json.dumps(each)}" for key, each in value.items())
