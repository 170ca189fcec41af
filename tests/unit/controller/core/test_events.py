"""Which event a watch stands for."""

from __future__ import annotations

import pytest

from lethe.controller.core import events
from lethe.controller.core.events import External, from_watch
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import WatchFired, WatchKind


@pytest.mark.parametrize(
    "kind, path, event",
    [
        (WatchKind.CREATED, paths.controller(), events.ControllerChanged()),
        (WatchKind.DATA_CHANGED, paths.controller(), events.ControllerChanged()),
        (WatchKind.DELETED, paths.controller(), events.ControllerDeleted()),
        (WatchKind.CHILDREN_CHANGED, paths.broker_ids(), events.BrokersChanged()),
        (WatchKind.CHILDREN_CHANGED, paths.broker_topics(), events.TopicsChanged()),
        (WatchKind.CHILDREN_CHANGED, paths.delete_topics(), events.TopicDeletionsRequested()),
        (WatchKind.DATA_CHANGED, paths.delete_topic("orders"), events.DeletionMarkerModified("orders")),
        (WatchKind.DELETED, paths.delete_topic("orders"), events.DeletionMarkerModified("orders", is_gone=True)),
        (WatchKind.CREATED, paths.deletions_paused(), events.DeletionsPauseChanged()),
        (WatchKind.DATA_CHANGED, paths.deletions_paused(), events.DeletionsPauseChanged()),
        (WatchKind.DELETED, paths.deletions_paused(), events.DeletionsPauseChanged()),
        (WatchKind.CHILDREN_CHANGED, paths.isr_change_notifications(), events.IsrChangesNotified()),
        (WatchKind.CHILDREN_CHANGED, paths.log_dir_event_notifications(), events.LogDirEventsNotified()),
        (WatchKind.CHILDREN_CHANGED, paths.config_changes(), events.ConfigurationChanged()),
        (WatchKind.CREATED, paths.preferred_replica_election(), events.PreferredElectionsRequested()),
        (WatchKind.DELETED, paths.preferred_replica_election(), events.PreferredElectionsRequested()),
        (WatchKind.DATA_CHANGED, paths.broker_id(7), events.BrokerModified(BrokerId(7))),
        (WatchKind.DATA_CHANGED, paths.topic("orders"), events.TopicsModified(("orders",))),
        (WatchKind.DELETED, paths.broker_id(7), None),
        (WatchKind.DELETED, paths.topic("orders"), events.TopicsModified(("orders",))),
        (WatchKind.DATA_CHANGED, paths.partition_state("orders", 0), None),
        (WatchKind.DATA_CHANGED, "/somewhere/else", None),
    ],
)
def test_event_that_a_watch_stands_for(kind: WatchKind, path: str, event: External | None) -> None:
    assert from_watch(WatchFired(kind, path)) == event
