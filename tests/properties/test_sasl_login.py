"""A login against a broker that answers anything: it ends with a refusal that shows no secret, never with success."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lethe.adapters.kafka.client_errors import AuthenticationRefused
from lethe.adapters.security.login import SaslLogin, log_in
from lethe.protocol.kafka.queries import Request, Response
from lethe.protocol.kafka.sasl import SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse
from lethe.protocol.kafka.versions import SPOKEN
from lethe.protocol.security.scram import ScramMechanism

PASSWORD = "correct-horse"
TOKENS = (
    st.binary(max_size=80)
    | st.builds(
        lambda nonce, salt, count: f"r={nonce},s={salt},i={count}".encode(),
        st.text(max_size=40),
        st.sampled_from(["", "c2FsdA==", "c2FsdA", "*"]),
        st.integers(-1, 2**40),
    )
    | st.builds(lambda signature: b"v=" + signature, st.sampled_from([b"", b"AAAA", b"A" * 88]))
    | st.sampled_from([b"e=other-error", b'{"status":"invalid_token"}'])
)
ERRORS = st.sampled_from([0, 0, 0, -1, 33, 34, 58, 999])
OFFERED = {int(api): versions for api, versions in SPOKEN.items()}
TEXTS = st.none() | st.text()


@settings(max_examples=300)
@given(
    handshake=st.builds(SaslHandshakeResponse, ERRORS, st.lists(st.text()).map(tuple)),
    answers=st.lists(st.builds(SaslAuthenticateResponse, ERRORS, TEXTS, TOKENS, st.integers(-(2**63), 2**63 - 1))),
    continues=st.booleans(),
)
def test_no_answers_of_a_broker_without_the_credential_are_a_login(
    handshake: SaslHandshakeResponse, answers: list[SaslAuthenticateResponse], continues: bool
) -> None:
    left = iter(answers)
    asked = 0

    async def ask(value: Request, version: int) -> Response:
        nonlocal asked
        asked += 1
        if isinstance(value, SaslHandshakeRequest):
            return handshake
        answer = next(left, SaslAuthenticateResponse(58, "invalid credentials"))
        if continues and asked == 2:
            # The right beginning of the server's first message.
            nonce = value.auth_bytes.rpartition(b"r=")[2]  # type: ignore[union-attr]
            return SaslAuthenticateResponse(0, None, b"r=" + nonce + b"S,s=c2FsdA==,i=4096")
        return answer

    login = SaslLogin.scram(ScramMechanism.SHA_256, "lethe", lambda: PASSWORD)
    with pytest.raises(AuthenticationRefused) as refused:
        asyncio.run(log_in(login, ask, OFFERED, "b1:9093 (SASL_PLAINTEXT)"))
    assert "b1:9093 (SASL_PLAINTEXT)" in str(refused.value)
    assert PASSWORD not in str(refused.value)
    assert "\n" not in str(refused.value)
    assert asked <= 3
