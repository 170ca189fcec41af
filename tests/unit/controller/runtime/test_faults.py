import asyncio

import pytest

from lethe.adapters.zookeeper.interface import SessionLost
from lethe.controller.runtime.faults import FAULTS, FaultResponse, response_to


@pytest.mark.parametrize(
    "error, verdict",
    [
        (SessionLost("expired"), FaultResponse.AWAIT_SESSION_LOST),
        (MemoryError(), FaultResponse.STOP),
        (LookupError("x"), FaultResponse.RESIGN),
        (OSError("x"), FaultResponse.RESIGN),
        (TimeoutError(), FaultResponse.RESIGN),
        (AssertionError(), FaultResponse.RESIGN),
        (RecursionError(), FaultResponse.RESIGN),
    ],
)
def test_one_table_says_what_a_fault_leads_to(error: Exception, verdict: FaultResponse) -> None:
    assert response_to(error) is verdict


def test_no_row_is_hidden_by_one_above_it() -> None:
    for number, (kind, _) in enumerate(FAULTS):
        assert not any(issubclass(kind, earlier) for earlier, _ in FAULTS[:number])


def test_cancellation_is_no_fault() -> None:
    assert not issubclass(asyncio.CancelledError, Exception)
