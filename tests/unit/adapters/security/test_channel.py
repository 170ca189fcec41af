"""One value for each of Kafka's security protocols, and a context that contradicts the policy."""

import ssl
from dataclasses import replace

import pytest

from lethe.adapters.security.channel import PLAINTEXT, ChannelSecurity
from lethe.adapters.security.login import SaslLogin
from lethe.protocol.vocabulary import SecurityProtocol

LOGIN = SaslLogin.plain("alice", lambda: "hunter2")


def checking(host: bool) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = host
    return context


def test_the_protocol_follows_from_tls_and_login() -> None:
    with_tls = ChannelSecurity(lambda: checking(True))
    assert [
        each.protocol for each in (PLAINTEXT, with_tls, replace(PLAINTEXT, login=LOGIN), replace(with_tls, login=LOGIN))
    ] == [
        SecurityProtocol.PLAINTEXT,
        SecurityProtocol.SSL,
        SecurityProtocol.SASL_PLAINTEXT,
        SecurityProtocol.SASL_SSL,
    ]
    assert PLAINTEXT.context() is None


@pytest.mark.parametrize("policy", [True, False])
def test_the_context_agrees_with_the_policy(policy: bool) -> None:
    context = checking(policy)
    assert ChannelSecurity(lambda: context, policy).context() is context
    with pytest.raises(RuntimeError, match="endpoint identification is"):
        ChannelSecurity(lambda: context, not policy).context()
    assert context.check_hostname is policy


def test_no_representation_shows_the_password() -> None:
    assert "hunter2" not in repr(ChannelSecurity(login=LOGIN))
