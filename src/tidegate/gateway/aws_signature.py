"""Signatures for AWS. A client signs the bytes of a request for its own address, so a gateway has to sign it again.

Amazon Bedrock has two addresses. `bedrock-mantle` speaks Anthropic's format, which the gateway can change; it signs
with the AWS credentials of its own user, read as AWS's programs do. `bedrock-runtime` streams answers in a binary
format that the gateway does not read.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from tidegate.core.errors import BadInput

if TYPE_CHECKING:  # an optional package
    from botocore.credentials import Credentials

_SERVICE: Final = "bedrock-mantle"
_MANTLE_HOST: Final = re.compile(r"bedrock-mantle\.(?P<region>[a-z0-9-]+)\.api\.aws\Z", re.IGNORECASE)
_RUNTIME_HOST: Final = re.compile(r"(?:^|\.)bedrock[a-z-]*\.[a-z0-9-]+\.amazonaws\.com(?:\.cn)?\Z", re.IGNORECASE)
_SIGNED_HEADERS: Final = ("content-type", "anthropic-version", "anthropic-beta")


def find_bedrock_region(url: str) -> str:
    """The region of an address of Bedrock that speaks Anthropic's format; "" for any other address.

    BadInput for the address of Bedrock that the gateway cannot work with.
    """
    host = urlsplit(url).hostname or ""
    if _RUNTIME_HOST.search(host):
        raise BadInput(
            f"The gateway cannot work with {host}: its answers stream in a binary format of AWS.",
            "Use https://bedrock-mantle.REGION.api.aws/anthropic, the address of Bedrock in Anthropic's format.",
        )
    match = _MANTLE_HOST.match(host)
    return match["region"].lower() if match else ""


class AwsSigner:
    """Signs requests for Bedrock in one region. BadInput without botocore or without credentials."""

    def __init__(self, region: str) -> None:
        remedy = "Without them AWS refuses what passes the gateway: set AWS_PROFILE or AWS_ACCESS_KEY_ID, or a key_env."
        try:
            from botocore.session import Session  # noqa: PLC0415 - an optional package
        except ImportError:
            raise BadInput(
                "Requests to Amazon Bedrock have to be signed again, which needs a package that is not installed.",
                "Run: pip install 'tidegate[bedrock]'",
            ) from None
        credentials: Credentials | None = Session().get_credentials()
        if credentials is None:
            raise BadInput("There are no AWS credentials to sign the requests to Amazon Bedrock.", remedy)
        self._credentials = credentials
        self._region = region

    def sign(self, method: str, url: str, headers: Sequence[tuple[str, str]], body: bytes) -> list[tuple[str, str]]:
        """The headers with a new signature. It may read new credentials from the network: call it in a thread."""
        from botocore.auth import SigV4Auth  # noqa: PLC0415 - an optional package
        from botocore.awsrequest import AWSRequest  # noqa: PLC0415 - an optional package

        signed_headers = {name.lower(): value for name, value in headers if name.lower() in _SIGNED_HEADERS}
        request = AWSRequest(method=method, url=url, headers=signed_headers, data=body)
        SigV4Auth(self._credentials, _SERVICE, self._region).add_auth(request)
        signed = {name.lower(): value for name, value in request.headers.items()}
        other_headers = [(name, value) for name, value in headers if name.lower() not in signed]
        other_headers = [(name, value) for name, value in other_headers if not name.lower().startswith("x-amz-")]
        return [*other_headers, *signed.items()]
