"""What a rescue's look at the cluster makes of unseen znodes, and of what brokers say of themselves."""

from __future__ import annotations

from lethe.admin.rescue_snapshot import ElectionRate, RescueSnapshot, turns_within, with_broker_settings
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, SetData
from lethe.survey.broker_settings import BrokerSettings
from lethe.survey.evidence import DeletionHolds, DynamicSetting, Evidence
from lethe.survey.views import Survey, ZooKeeperTree
from tests.fakes.forbidden_znodes import forbidding
from tests.fakes.zookeeper import FakeSession
from tests.fakes.zookeeper_cluster import apply

EPOCH = paths.CONTROLLER_EPOCH
SETTING = DynamicSetting(True, paths.config_broker(1))


async def test_an_unseen_epoch_is_no_calm(session: FakeSession) -> None:
    assert (await turns_within(session, 0)).elections == 0, "no election was held yet"
    await apply(session, Create(EPOCH, b"7"))
    assert (await turns_within(session, 0)).elections == 0
    assert (await turns_within(forbidding(session, EPOCH), 0)).elections is None
    await apply(session, SetData(EPOCH, b"seven", ANY_VERSION))
    unseen = await turns_within(session, 0)
    assert (unseen.elections, unseen.are_too_many) == (None, False)
    assert str(unseen) == f"unknown, because {EPOCH} cannot be read or understood"


def test_what_brokers_have_in_their_own_properties_is_no_znode() -> None:
    settings = (
        BrokerSettings(BrokerId(1), False),
        BrokerSettings(BrokerId(2), True),
        BrokerSettings(BrokerId(3), False),
    )
    evidence = Evidence(Survey(1, 1, ZooKeeperTree()), ())
    seen = RescueSnapshot(evidence, (), None, settings, (), ElectionRate(0, 1))
    assert with_broker_settings(seen).holds == DeletionHolds(disabled_on=(BrokerId(1), BrokerId(3)))
    overridden = Evidence(evidence.survey, (), holds=DeletionHolds(delete_topic_enable=SETTING))
    seen = RescueSnapshot(overridden, (), None, settings, (), ElectionRate(0, 1))
    assert with_broker_settings(seen) is overridden
