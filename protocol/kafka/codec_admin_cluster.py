"""Mapping of requests of clients about configurations, SCRAM users and features, and their responses, to Kafka's
schemas."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from lethe.protocol.kafka.admin_cluster import (
    AlteredUser,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribedUser,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    FeatureUpdate,
    ScramDeletion,
    ScramInfo,
    ScramUpsertion,
    UpdatedFeature,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
    UpgradeType,
)
from lethe.protocol.kafka.admin_configs import (
    AlterableConfig,
    AlterableResource,
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlteredResource,
    IncrementalAlterConfigsRequest,
)
from lethe.protocol.kafka.codec_control import Binding
from lethe.protocol.kafka.codec_layout import Shape

# --- configurations -----------------------------------------------------------------------------------------------

_RESOURCE = Shape(AlterableResource, ("resource_type", "resource_name", "configs"))


def alter_configs_request(_version: int) -> Binding:
    def items(request: AlterConfigsRequest) -> tuple[Any, ...]:
        resources = [(*each.resource, [config[:2] for config in each.configs]) for each in request.resources]
        return resources, request.validate_only

    return Binding(
        shapes={
            "AlterConfigsRequest": Shape(AlterConfigsRequest, ("resources", "validate_only")),
            "AlterConfigsResource": _RESOURCE,
            "AlterableConfig": Shape(AlterableConfig, ("name", "value")),
        },
        items=items,
    )


def incremental_alter_configs_request(_version: int) -> Binding:
    return Binding(
        shapes={
            "IncrementalAlterConfigsRequest": Shape(IncrementalAlterConfigsRequest, ("resources", "validate_only")),
            "AlterConfigsResource": _RESOURCE,
            "AlterableConfig": Shape(AlterableConfig, ("name", "value", "config_operation")),
        },
        items=attrgetter("resources", "validate_only"),
    )


def alter_configs_response(_version: int) -> Binding:
    """Map the response to either request."""
    whole = Shape(AlterConfigsResponse, ("responses", "throttle_time"))
    names = ("error_code", "error_message", "resource_type", "resource_name")
    return Binding(
        shapes={
            "AlterConfigsResponse": whole,
            "IncrementalAlterConfigsResponse": whole,
            "AlterConfigsResourceResponse": Shape(AlteredResource, names),
        },
        items=attrgetter("resources", "throttle_time_ms"),
    )


# --- SCRAM users --------------------------------------------------------------------------------------------------


def alter_user_scram_credentials_request(_version: int) -> Binding:
    upsertion = ("name", "mechanism", "iterations", "salt", "salted_password")
    return Binding(
        shapes={
            "AlterUserScramCredentialsRequest": Shape(AlterUserScramCredentialsRequest, ("deletions", "upsertions")),
            "ScramCredentialDeletion": Shape(ScramDeletion, ("name", "mechanism")),
            "ScramCredentialUpsertion": Shape(ScramUpsertion, upsertion),
        },
        items=attrgetter("deletions", "upsertions"),
    )


def alter_user_scram_credentials_response(_version: int) -> Binding:
    return Binding(
        shapes={
            "AlterUserScramCredentialsResponse": Shape(AlterUserScramCredentialsResponse, ("results", "throttle_time")),
            "AlterUserScramCredentialsResult": Shape(AlteredUser, ("user", "error_code", "error_message")),
        },
        items=attrgetter("users", "throttle_time_ms"),
    )


def describe_user_scram_credentials_request(_version: int) -> Binding:
    def items(request: DescribeUserScramCredentialsRequest) -> tuple[Any, ...]:
        return (None if request.users is None else [(name,) for name in request.users],)

    return Binding(
        shapes={
            "DescribeUserScramCredentialsRequest": Shape(DescribeUserScramCredentialsRequest, ("users",)),
            "UserName": Shape(str, ("name",)),
        },
        items=items,
    )


def describe_user_scram_credentials_response(_version: int) -> Binding:
    names = ("results", "error_code", "error_message", "throttle_time")
    user = ("user", "error_code", "error_message", "credential_infos")
    return Binding(
        shapes={
            "DescribeUserScramCredentialsResponse": Shape(DescribeUserScramCredentialsResponse, names),
            "DescribeUserScramCredentialsResult": Shape(DescribedUser, user),
            "CredentialInfo": Shape(ScramInfo, ("mechanism", "iterations")),
        },
        items=attrgetter("users", "error", "message", "throttle_time_ms"),
    )


# --- features -----------------------------------------------------------------------------------------------------


def update_features_request(version: int) -> Binding:
    """Map the request. Version 0 has a flag that allows downgrades, version 1 their type."""
    update = Shape(FeatureUpdate, ("feature", "max_version_level", "upgrade_type"))
    if not version:
        update = Shape(_from_flag, ("feature", "max_version_level", "allow_downgrade"))
    names = ("feature_updates", "timeout", "validate_only")

    def items(request: UpdateFeaturesRequest) -> tuple[Any, ...]:
        return request.updates if version else _with_flags(request), request.timeout_ms, request.validate_only

    return Binding(
        shapes={
            "UpdateFeaturesRequest": Shape(UpdateFeaturesRequest, names, (False,)),
            "FeatureUpdateKey": update,
        },
        items=items,
    )


def _from_flag(feature: str, level: int, allow_downgrade: bool) -> FeatureUpdate:
    return FeatureUpdate(feature, level, UpgradeType.SAFE_DOWNGRADE if allow_downgrade else UpgradeType.UPGRADE)


def _with_flags(request: UpdateFeaturesRequest) -> list[tuple[str, int, bool]]:
    return [(feature, level, kind != UpgradeType.UPGRADE) for feature, level, kind in request.updates]


def update_features_response(_version: int) -> Binding:
    names = ("results", "error_code", "error_message", "throttle_time")
    return Binding(
        shapes={
            "UpdateFeaturesResponse": Shape(UpdateFeaturesResponse, names),
            "UpdatableFeatureResult": Shape(UpdatedFeature, ("feature", "error_code", "error_message")),
        },
        items=attrgetter("features", "error", "message", "throttle_time_ms"),
    )
