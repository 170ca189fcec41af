"""The journal's topic behind client certificates or tokens in a real Kafka, as Spark's source reads it."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
from aiokafka import AIOKafkaProducer
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from lethe.admin.topic_znodes import live_brokers
from lethe.cluster.daemons import write_properties
from lethe.cluster.kafka_fetch import KafkaVersion
from lethe.protocol.journal import DEFAULT_TOPIC
from tests.fakes.certificates import Authority
from tests.interop.conditions import create, is_known_to_all, plan, until
from tests.interop.conftest import MakeCluster
from tests.interop.secure_listeners import STORE_PASSWORD
from tests.interop.spark_source import spark_jars
from tests.interop.test_stream_from_kafka import in_bronze, once
from tests.pipeline.golden_run import JOURNALS

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.zookeeper,
    pytest.mark.processes,
    pytest.mark.timeout(2700),
]

LINES: Final = 20
TOKENS: Final = "TOKENS"
_MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_VALIDATOR: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"


def broker_properties(authority: Authority, place: Path, version: str) -> dict[str, str]:
    """One listener for each kind of client; the brokers' own token, which nobody uses, has no signature."""
    keys = authority.issue().pkcs12(place / "broker.p12", STORE_PASSWORD)
    certificates = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "ssl.client.auth": "required",
        **_stores(keys, authority.pkcs12(place / "trust.p12", STORE_PASSWORD)),
    }
    if not verifies_tokens(version):
        return certificates
    prefix = f"listener.name.{TOKENS.lower()}.oauthbearer.sasl."
    return {
        **certificates,
        "listeners": f"{certificates['listeners']},{TOKENS}://127.0.0.1:0",
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,SSL:SSL,{TOKENS}:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{prefix}jaas.config": f'{_MODULE} required unsecuredLoginStringClaim_sub="broker";',
        f"{prefix}server.callback.handler.class": _VALIDATOR,
        "sasl.oauthbearer.jwks.endpoint.url": (place / "keys.json").as_uri(),
    }


def verifies_tokens(version: str) -> bool:
    """Return whether the broker verifies signatures. Those of 2.5 take only tokens without one, which Java's clients
    do not send from a file."""
    return KafkaVersion.parse(version) >= KafkaVersion(3, 9, 0)


def _stores(keys: Path, trusted: Path) -> dict[str, str]:
    return {
        f"ssl.{store}.{name}": value
        for store, path in (("keystore", keys), ("truststore", trusted))
        for name, value in (("location", str(path)), ("type", "PKCS12"), ("password", STORE_PASSWORD))
    }


def write_token(place: Path) -> None:
    """Write a token of the user `lethe` for an hour, and the public key that brokers verify it by."""
    key = rsa.generate_private_key(65537, 2048)
    numbers = key.public_key().public_numbers()
    public = {"kty": "RSA", "kid": "1", "alg": "RS256", "n": _number(numbers.n), "e": _number(numbers.e)}
    (place / "keys.json").write_text(json.dumps({"keys": [public]}))
    now_s = int(time.time())
    header, claims = {"alg": "RS256", "kid": "1"}, {"sub": "lethe", "iat": now_s, "exp": now_s + 3600}
    signed = ".".join(_base64(json.dumps(each).encode()) for each in (header, claims))
    signature = key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
    (place / "token").write_text(f"{signed}.{_base64(signature)}")


def _number(value: int) -> str:
    return _base64(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def client_files(authority: Authority, place: Path) -> Mapping[str, tuple[str, dict[str, str]]]:
    """Listener and properties of each kind of client."""
    client = authority.client()
    return {
        "PEM": (
            "SSL",
            {
                "security.protocol": "SSL",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(client.pem_file(place / "client.pem")),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(authority.pem_file(place / "trust.pem")),
            },
        ),
        "PKCS12": (
            "SSL",
            {
                "security.protocol": "SSL",
                **_stores(client.pkcs12(place / "client.p12", STORE_PASSWORD), place / "trust.p12"),
            },
        ),
        "OAUTHBEARER": (
            TOKENS,
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.token.endpoint.url": (place / "token").as_uri(),
            },
        ),
    }


async def test_certificates_and_tokens_of_a_client_serve_the_stream_too(
    kafka_cluster: MakeCluster, version: str, tmp_path: Path
) -> None:
    jars = await asyncio.to_thread(spark_jars)
    authority, place = Authority(), tmp_path / "security"
    place.mkdir()
    write_token(place)
    properties = broker_properties(authority, place, version)
    async with kafka_cluster(version, 1, controllers=0, properties=properties) as cluster, cluster.session() as session:
        await create(session, plan(DEFAULT_TOPIC, (1,), version=version))
        await until(is_known_to_all(session, 1, DEFAULT_TOPIC), "the broker knows the journal's topic")
        (broker,), _ = await live_brokers(session)
        servers = {each.listener: f"{each.host}:{each.port}" for each in broker.endpoints}
        lines = min(JOURNALS.glob("*.jsonl")).read_bytes().splitlines(keepends=True)[:LINES]
        async with AIOKafkaProducer(bootstrap_servers=servers["PLAINTEXT"]) as producer:
            for line in lines:
                await producer.send_and_wait(DEFAULT_TOPIC, line)
        for kind, (listener, given) in client_files(authority, place).items():
            if listener not in servers:
                continue
            config, lake = place / f"{kind}.properties", tmp_path / f"lake-{kind}"
            write_properties(config, given)
            topic = ("--kafka", servers[listener], "--command-config", str(config), "--conf", f"spark.jars={jars}")
            await once(lake, topic)
            assert in_bronze(lake) == LINES, kind
