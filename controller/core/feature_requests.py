"""UpdateFeatures, refused as Kafka refuses it in ZooKeeper mode: no broker there supports a feature.

    inter.broker.protocol.version          answer
    -------------------------------------  --------------------------------------------------------------------------
    below 2.7-IV0                          INVALID_REQUEST for the whole request: there is no `/feature`
    from 2.7-IV0 on                        INVALID_REQUEST for each feature, by the first of these
        its name is empty
        its type of upgrade is unknown
        it is to be removed                no broker has finalized it
        its level is below 1               without a downgrade, that is
        anything else                      no broker supports it

Brokers of ZooKeeper mode register with no feature (KafkaServer of 3.9.1: BrokerFeatures.createEmpty), so none can be
finalized, and nothing is written.
"""

from __future__ import annotations

from typing import Final

from lethe.controller.core import requests
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_settings import UpdateRequestedFeatures
from lethe.protocol.kafka.admin_cluster import (
    FeatureUpdate,
    UpdatedFeature,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
    UpgradeType,
)
from lethe.protocol.kafka.errors import ErrorCode

_INVALID: Final = ErrorCode.INVALID_REQUEST


def answer(step: StepContext, task: UpdateRequestedFeatures) -> None:
    """Refuse the request, or each of its features."""
    request = requests.asked(step.context, task.key, UpdateFeaturesRequest)
    if not step.context.config.ibp.has_feature_znode:
        response = UpdateFeaturesResponse((), _INVALID, "Feature versioning system is disabled.")
    else:
        rows = (UpdatedFeature(update.feature, _INVALID, _words(update)) for update in request.updates)
        response = UpdateFeaturesResponse(tuple(rows))
    requests.answer(step, task.key, response)


def _words(update: FeatureUpdate) -> str:
    if not update.feature:
        return "Feature name can not be empty."
    if update.upgrade_type not in list(UpgradeType):
        return "Received unknown upgrade type."
    if update.level >= 1:
        return "Could not apply finalized feature update because the provided feature is not supported."
    if update.upgrade_type != UpgradeType.UPGRADE:
        return "Can not delete non-existing finalized feature."
    return (
        f"Can not provide versionLevel: {update.level} less than 1 without setting the SAFE downgradeType in the "
        f"request."
    )
