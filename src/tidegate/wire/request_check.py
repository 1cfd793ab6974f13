"""The provider's validator for the requests of a conversation, as a client wrote them or as they were edited."""

import msgspec

from tidegate.wire.registry import get_dialect
from tidegate.wire.splicing.memo import LastList
from tidegate.wire.splicing.request_text import RequestText, decode_request
from tidegate.wire.validation.faults import RequestFault
from tidegate.wire.validation.validator import RequestValidator


class RequestCheck:
    """The provider's validator for the requests of a conversation. What a request repeats is not checked again."""

    def __init__(self, dialect: str) -> None:
        self._dialect = get_dialect(dialect)
        self._last: RequestText | None = None
        self._messages = LastList[object]()
        self._head: object = None
        self._validator: RequestValidator | None = None

    def find_faults(self, text: bytes, model: str) -> list[RequestFault]:
        """What the validator finds wrong in a request."""
        dialect = self._dialect
        self._last = decode_request(text, dialect.messages_key, self._last)
        body = dict(self._last.body) if self._last else msgspec.json.decode(text, type=dict[str, object])
        listed = body.pop(dialect.messages_key, None)
        for key in ("stream", "stream_options"):
            body.pop(key, None)
        messages = listed if isinstance(listed, list) else [{"role": "user", "content": listed}]
        known_count = len(self._messages.items)
        is_continued = self._messages.update(messages) == known_count and self._head == (model, body)
        if self._validator is None or not is_continued:
            self._head, known_count = (model, body), 0
            self._validator = dialect.create_validator(body, dialect.profile_for_model(model))
        for message in messages[known_count:]:
            self._validator.feed(message)
        return self._validator.finish()


def find_request_faults(dialect: str, text: bytes, model: str) -> list[RequestFault]:
    """What the provider's validator finds wrong in a single request."""
    return RequestCheck(dialect).find_faults(text, model)
