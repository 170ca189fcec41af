"""Routes the tasks of clients' requests to the modules that handle them. Decides nothing."""

from __future__ import annotations

from typing import assert_never

from lethe.controller.core import (
    config_description,
    config_requests,
    election_requests,
    feature_requests,
    mutation_quotas,
    partition_creation_requests,
    reassignment_api,
    tasks_clients,
    tasks_settings,
    topic_creation_requests,
    topic_deletion_requests,
    user_requests,
)
from lethe.controller.core.step_context import StepContext


def run(step: StepContext, task: tasks_clients.ClientTask) -> None:
    if isinstance(task, tasks_settings.SettingTask):
        _run_about_settings(step, task)
        return
    match task:
        case tasks_clients.ReadMutationQuota():
            mutation_quotas.read(step, task)
        case tasks_clients.AlterReassignments():
            reassignment_api.alter(step, task)
        case tasks_clients.AnswerAlterReassignments():
            reassignment_api.answer(step, task)
        case tasks_clients.ListReassignments():
            reassignment_api.list_reassignments(step, task)
        case tasks_clients.ElectAsRequested():
            election_requests.elect(step, task)
        case tasks_clients.AwaitElected():
            election_requests.await_elected(step, task)
        case tasks_clients.CreateRequestedTopics():
            topic_creation_requests.begin(step, task)
        case tasks_clients.DeleteRequestedTopics():
            topic_deletion_requests.begin(step, task)
        case tasks_clients.AddRequestedPartitions():
            partition_creation_requests.begin(step, task)
        case _:
            assert_never(task)


def _run_about_settings(step: StepContext, task: tasks_settings.SettingTask) -> None:
    match task:
        case tasks_settings.AlterRequestedConfigs():
            config_requests.begin(step, task)
        case tasks_settings.DescribeRequestedConfigs():
            config_description.begin(step, task)
        case tasks_settings.AlterRequestedUsers():
            user_requests.alter(step, task)
        case tasks_settings.DescribeRequestedUsers():
            user_requests.describe(step, task)
        case tasks_settings.UpdateRequestedFeatures():
            feature_requests.answer(step, task)
        case _:
            assert_never(task)
