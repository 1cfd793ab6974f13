"""Faults of a request, the rules they break, and validation profiles.

The validators check the JSON that is about to be sent, not our own messages, and share no code with the renderers: a
mistake in one cannot hide in the other. A fault has the provider's own wording, so that a test, a log line and a fake
server say what the provider would have said.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec


class RequestFault(msgspec.Struct, frozen=True):
    rule: str  # a key of RULE_DESCRIPTIONS, or SHAPE
    text: str  # the provider's words, numbers and ids filled in
    where: str  # the place in the body, in the provider's own notation


class FaultWording(NamedTuple):
    """A provider's sentence for a broken rule, with the fields to fill in in braces."""

    rule: str
    text: str


class ChatDemands(msgspec.Struct, frozen=True, kw_only=True):
    """What one server of the OpenAI chat family demands beyond the others, in its own words; None: no such demand."""

    prefix_last: FaultWording | None = None  # an assistant message with `prefix` ends the request
    user_after_results: FaultWording | None = None  # no user message directly after tool results
    system_after: FaultWording | None = None  # no system message after tool results or an assistant message
    result_count: FaultWording | None = None  # as many results as calls
    call_id: FaultWording | None = None  # call ids match `call_id_pattern`
    call_id_pattern: str = ""
    content_or_calls: FaultWording | None = None  # an assistant message has content or calls
    system_content: FaultWording | None = None  # a system message has content
    last_role: FaultWording | None = None  # the request ends with a user message or a result
    known_result: FaultWording | None = None  # a result answers a known call
    result_order: FaultWording | None = None  # results follow their calls directly and in order
    required_list: FaultWording | None = None  # every object schema has a list `required`
    repeated_role_text: str = ""  # added to OC11
    tool_rule: str = "OC5"
    schema_text: str = ""
    compiles_patterns: bool = False  # patterns in schemas are compiled as Python does


class ValidationProfile(msgspec.Struct, frozen=True, kw_only=True):
    """The servers that a request must satisfy.

    The first three demands come from compatible servers, not from the providers themselves; they are on because a
    history that meets them is accepted everywhere. The others are off: `allows_` fields relax a rule, the rest are
    demands of single servers, in `chat` those with a wording of their own.
    """

    alternate: bool = True  # OC11, AN2, GE2: user and model take turns
    json_arguments: bool = True  # OC7: call arguments hold a JSON object
    tool_results_plain_text: bool = True  # OC15 for tool messages only: a plain string, no parts, no images
    allows_prefill: bool = False  # AN8: the request may end with the start of the answer, as older models allow
    allows_developer_role: bool = False  # OC9: the server knows the developer role
    requires_reasoning: bool = False  # OC12: the server wants its reasoning back
    text_only: bool = False  # OC15 for every role
    chat: ChatDemands = ChatDemands()
    message_wording: Mapping[str, FaultWording] | None = None  # of the Anthropic form, if not Anthropic's own
    requires_signatures: bool = False  # GE6


STRICT_PROFILE = ValidationProfile()


RULE_DESCRIPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "SHAPE": "a value of the wrong type, or a required field that is missing",
        "OC1": "at least one message",
        "OC2": "a tool message answers a call of the assistant message just before it",
        "OC3": "every call is answered before any other role speaks",
        "OC4": "tool_calls, when present, holds 1 to 128 calls",
        "OC5": "1 to 128 tools, with unique well-formed names and valid schemas",
        "OC6": "call ids have 1 to 40 characters",
        "OC7": "call arguments are a string that holds a JSON object, at most 1,048,576 characters",
        "OC8": "content is never null without calls; parts are a non-empty list; images only from the user",
        "OC9": "a role the server knows",
        "OC10": "valid Unicode, valid JSON, no string over 10,485,760 characters",
        "OC11": "one system message at most and first; then user and assistant in turn, ending with user or tool",
        "OC12": "reasoning_content is sent back in turns that called tools",
        "OC13": "Moonshot: a tool message answers a known call",
        "OC14": "MiniMax: results follow their calls directly and in order",
        "OC15": "text-only servers: no parts but text; a tool message holds a plain string",
        "OR1": "every call has its output before the model speaks again",
        "OR2": "every output has its call",
        "OR3": "a reasoning item is directly followed by the item it led to",
        "OR4": "an item with a server id keeps the reasoning it was made with",
        "OR5": "with store false nothing is referred to by id: reasoning travels as encrypted content",
        "OR6": "item ids are unique, begin with the prefix of their type, 64 characters at most; so are call ids",
        "OR7": "a reasoning item has a summary, no content, no output-only fields",
        "OR8": "encrypted reasoning belongs to the account that made it",
        "OR9": "call arguments are a string that holds a JSON object, at most 1,048,576 characters",
        "OR10": "of several reasoning items in a row only the last is sent back",
        "OR11": "encrypted reasoning uses the window but is not in the reported usage",
        "OR12": "a compaction item is opaque and whole",
        "AN1": "at least one message; roles user and assistant; the user speaks first",
        "AN2": "user and assistant take turns",
        "AN3": "every tool_use is answered in the next user message",
        "AN4": "every tool_result answers a tool_use of the assistant message before it",
        "AN5": "tool_result blocks stand first in their message",
        "AN6": "tool_use ids are unique and well-formed; one result each",
        "AN7": "no empty or blank text, no empty message",
        "AN8": "the user speaks last; where prefill is allowed it does not end in white space",
        "AN9": "tools are declared when the history holds tool blocks",
        "AN10": "unique well-formed tool names, object schemas, object inputs",
        "AN11": "at most 4 cache marks, ephemeral, none on thinking",
        "AN12": "the thinking of the running tool loop is there, first and whole",
        "AN13": "a thinking block is bound to everything that stood before it",
        "AN14": "1024 <= thinking budget < max_tokens; no forced tool while thinking",
        "AN15": "images: 5 MB, 8000 px (2000 px when over 20), 100 a request; request 32 MB",
        "AN16": "tool_choice only with tools",
        "GE1": "contents are there and each has a part with something in it",
        "GE2": "roles user and model, in turn, the user first and last",
        "GE3": "a function call follows a user turn or a function response",
        "GE4": "one content answers all calls of the content before it",
        "GE5": "well-formed function names; a response bears the name of its call",
        "GE6": "Gemini 3: in the running turn the first call of each step carries its thought signature",
        "GE7": "a stand-in signature exists for histories that lost theirs",
        "GE8": "no unknown field; 20 MB a request",
        "BR1": "Bedrock: the user speaks first, then in turn",
        "BR2": "Bedrock: the results of a turn are exactly the calls of the turn before",
        "BR3": "Bedrock: no blank text, no empty content",
        "BR4": "Bedrock: tools are declared when tool blocks exist",
        "BR5": "Bedrock: replayed reasoning carries its signature",
        "MI1": "Mistral: last is user or tool (or an assistant prefix); after tool comes tool or assistant",
        "MI2": "Mistral: as many results as calls",
        "MI3": "Mistral: call ids are nine letters or digits",
        "MI4": "Mistral: an assistant message says something or calls something",
        "MI5": "Mistral: well-formed function names, draft 7 schemas, a system message has content",
        "XA1": "xAI: every object schema has a required array",
    }
)

UNCHECKED_RULES: Mapping[str, str] = MappingProxyType(
    {
        "OR8": "only the provider can open the blob; its presence and shape are judged under OR5 and OR7",
        "OR11": "nothing is refused; it is a matter of counting",
        "GE7": "nothing is refused; the stand-in is accepted as a signature under GE6",
    }
)
