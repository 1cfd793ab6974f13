"""Amazon Bedrock behind the gateway: requests are signed again, or it is said before the start why that cannot be."""

import asyncio
import hashlib
import hmac
import json
from pathlib import Path

import pytest

from tests.cli.calling import called
from tests.gateway.serving import open_http, run_gateway
from tests.gateway.test_upstream_connection import ANSWER, JSON_TYPE, LENGTH, RawUpstream, serve_raw
from tidegate.core.errors import BadInput
from tidegate.gateway.settings import Upstream, parse_upstream

MANTLE = "https://bedrock-mantle.us-east-1.api.aws/anthropic"
ACCESS, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
TALK = [{"role": "user", "content": "hi"}]
FOREIGN = "AWS4-HMAC-SHA256 Credential=OTHER/20261119/us-east-1/bedrock/aws4_request, SignedHeaders=host, Signature=00"


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("botocore", reason="needs the extra bedrock")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


def compute_signature(line: str, headers: dict[str, str], body: bytes, url: str) -> str:
    """AWS's signature, version 4, written after its description and not with the library that signs."""
    fields = dict(part.strip().split("=", 1) for part in headers["authorization"].split(" ", 1)[1].split(","))
    names = fields["SignedHeaders"].split(";")
    values = {**headers, "host": url.split("//")[1].split("/", maxsplit=1)[0]}
    canonical = "\n".join(
        [
            *line.split(" ")[:2],
            "",
            *(f"{name}:{' '.join(values[name].split())}" for name in names),
            "",
            fields["SignedHeaders"],
            hashlib.sha256(body).hexdigest(),
        ]
    )
    _, date, region, service, ending = fields["Credential"].split("/")
    scope = f"{date}/{region}/{service}/{ending}"
    key = f"AWS4{SECRET}".encode()
    for part in (date, region, service, ending):
        key = hmac.digest(key, part.encode(), "sha256")
    text = f"AWS4-HMAC-SHA256\n{headers['x-amz-date']}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    return hmac.new(key, text.encode(), "sha256").hexdigest()


def test_a_managed_request_is_signed_again(credentials: None, tmp_path: Path) -> None:
    async def run() -> None:
        upstream = RawUpstream(JSON_TYPE + LENGTH + b"\r\n" + ANSWER)
        async with serve_raw(upstream) as at:
            url = at.url.removesuffix("/base")
            own = Upstream("anthropic", "anthropic", url, aws_region="us-east-1")
            async with run_gateway(tmp_path, own) as running, open_http() as http:
                body = {"model": "anthropic.claude-opus-4-8", "max_tokens": 9, "messages": TALK}
                headers = {
                    "authorization": FOREIGN,
                    "x-amz-date": "20200101T000000Z",
                    "anthropic-version": "2023-06-01",
                }
                response = await http.post(running.url + "/v1/messages", json=body, headers=headers)
                assert response.status_code == 200
                assert len(running.data.store.sessions()) == 1, "it is logged"
        line, *lines = upstream.heads[0].decode().strip().split("\r\n")
        seen = {name.lower(): value for name, _, value in (each.partition(": ") for each in lines)}
        assert f"Credential={ACCESS}/" in seen["authorization"]
        assert "us-east-1/bedrock-mantle/aws4_request" in seen["authorization"]
        sent = json.dumps(body, separators=(",", ":")).encode()
        signature = compute_signature(line, seen, sent, url)
        assert seen["authorization"].endswith(f"Signature={signature}")

    asyncio.run(run())


def test_the_address_decides() -> None:
    assert parse_upstream(f"anthropic={MANTLE}").aws_region == "us-east-1"
    assert parse_upstream(f"anthropic={MANTLE}", {"anthropic": "key"}).aws_region == ""
    assert parse_upstream("anthropic=https://bedrock-mantle.example.com").aws_region == ""
    with pytest.raises(BadInput, match="binary format"):
        parse_upstream("anthropic=https://bedrock-runtime.eu-west-1.amazonaws.com")


def test_what_cannot_work_is_said_before_the_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("DOOR", "a-token-of-the-gateway")
    serve = ("serve", "--data", tmp_path / "data", "--port", 0, "--upstream", f"anthropic={MANTLE}")
    without_token = called(*serve)
    assert (without_token.returncode, "spend your AWS credentials" in without_token.stderr) == (2, True)
    without_credentials = called(*serve, "--token-env", "DOOR")
    assert without_credentials.returncode == 2
    assert "AWS credentials" in without_credentials.stderr or "tidegate[bedrock]" in without_credentials.stderr
    assert not (tmp_path / "data").exists()
