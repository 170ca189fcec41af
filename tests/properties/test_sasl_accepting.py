"""Clients that send anything in any order: nobody gets in without the password."""

from __future__ import annotations

import asyncio

from hypothesis import example, given
from hypothesis import strategies as st

from lethe.adapters.security.accepting import SaslAcceptance, SaslConversation
from lethe.adapters.security.exchanges import PlainExchange, ScramExchange
from lethe.adapters.security.scram_users import ScramUsers
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from lethe.protocol.security.jaas import parse_config
from lethe.protocol.security.plain import PlainToken
from lethe.protocol.security.principals import Principal
from lethe.protocol.security.scram import ScramMechanism

PASSWORD = "correct-horse"
JAAS = f'PlainLoginModule required user_ann="{PASSWORD}";'
RIGHT = PlainToken("ann", PASSWORD).encode()
TOKENS = st.one_of(
    st.binary(max_size=60),
    st.text(max_size=20).map(lambda text: f"n,,n={text},r=nonce".encode()),
    st.builds(lambda user, password: f"\0{user}\0{password}".encode(), st.sampled_from(["ann", "bob"]), st.text()),
)
HANDSHAKES = st.sampled_from(["PLAIN", "SCRAM-SHA-512", "GSSAPI", "plain", ""]).map(SaslHandshakeRequest)


def conversation() -> SaslConversation:
    users = ScramUsers(lambda: None, lambda: 0.0)
    mechanisms = {
        "PLAIN": lambda: PlainExchange(lambda: parse_config(JAAS)),
        "SCRAM-SHA-512": lambda: ScramExchange(ScramMechanism.SHA_512, users),
    }
    return SaslConversation(SaslAcceptance(mechanisms), lambda: 0.0)  # type: ignore[arg-type]


@given(st.lists(st.one_of(HANDSHAKES, TOKENS.map(SaslAuthenticateRequest)), max_size=8))
def test_without_the_password_no_sequence_of_messages_gives_a_principal(
    requests: list[SaslHandshakeRequest | SaslAuthenticateRequest],
) -> None:
    async def play() -> None:
        sasl = conversation()
        for request in requests:
            if isinstance(request, SaslAuthenticateRequest) and request.auth_bytes == RIGHT:
                return
            answer = await sasl.answer(request)
            assert sasl.principal is None
            assert PASSWORD not in repr(answer)
            assert sasl.refusal(ApiKey.STOP_REPLICA) is not None
            if answer.failure is not None:
                return
            assert answer.response is not None

    asyncio.run(play())


@given(st.integers(-(2**15), 2**15 - 1))
@example(ApiKey.API_VERSIONS)
def test_before_the_login_only_three_apis_are_read_and_in_its_middle_only_one(api_key: int) -> None:
    async def play() -> None:
        sasl = conversation()
        may_come_first = {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
        assert (sasl.refusal(api_key) is None) is (api_key in may_come_first)
        await sasl.answer(SaslHandshakeRequest("PLAIN"))
        assert (sasl.refusal(api_key) is None) is (api_key == ApiKey.SASL_AUTHENTICATE)
        accepted = await sasl.answer(SaslAuthenticateRequest(RIGHT))
        assert accepted.response is not None
        assert accepted.response.error == ErrorCode.NONE
        assert sasl.principal == Principal("User", "ann")
        assert sasl.refusal(api_key) is None

    asyncio.run(play())
