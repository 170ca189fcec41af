"""Bugs to be found: each takes one rule out of the cores for as long as a run takes. The cores have no switches.

A function is replaced wherever a module of the cores has it under its name, so that it makes no difference who imported
it from where. A simulator that finds one of these neither by its known seed (`known_seeds`) nor within two hundred is
too kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Final

from tests.simulation import (
    bugs_agent,
    bugs_clients,
    bugs_control,
    bugs_debts,
    bugs_deletion,
    bugs_forgetting,
    bugs_parts,
    bugs_power,
    bugs_protection,
    bugs_removal,
    bugs_slices,
    bugs_tombstones,
    bugs_trash,
)

Bug = Callable[[], AbstractContextManager[object]]

BUGS: Final[Mapping[str, Bug]] = {
    bug.__name__: bug
    for bug in (
        bugs_control.fence_off,
        bugs_control.replicas_left_on_controllers,
        bugs_control.ghosts_left,
        bugs_control.bounce_unnoticed,
        bugs_control.unknown_taken_for_done,
        bugs_control.memory_before_outcome,
        bugs_control.last_in_sync_dropped,
        bugs_control.always_unclean,
        bugs_control.verdict_after_term,
        bugs_control.done_after_term,
        bugs_control.let_go_at_once,
        bugs_control.given_to_who_leaves,
        bugs_control.notification_deleted_unread,
        bugs_control.configuration_not_followed,
        bugs_control.unreadable_taken_for_unset,
        bugs_control.znode_written_over,
        bugs_control.move_ended_unmarked,
        bugs_control.removed_replicas_forgotten,
        bugs_debts.deleted_without_compare,
        bugs_debts.zero_id_compared,
        bugs_debts.znodes_go_before_the_debt,
        bugs_debts.withheld_for_ever,
        bugs_debts.debt_of_the_living_paid,
        bugs_debts.epoch_not_raised,
        bugs_debts.earlier_incarnation_counts,
        bugs_debts.never_asked_on_return,
        bugs_debts.owed_though_registered,
        bugs_debts.paid_compared_again,
        bugs_forgetting.given_up_counts_as_deleted,
        bugs_forgetting.forgotten_and_still_owing,
        bugs_forgetting.registered_given_up,
        bugs_deletion.any_stop_answer_counts,
        bugs_deletion.answers_unmatched,
        bugs_deletion.tombstone_unanswered,
        bugs_deletion.no_evidence,
        bugs_deletion.whole_column_acknowledged,
        bugs_deletion.failed_directory_overlooked,
        bugs_deletion.doomed_announced_again,
        bugs_deletion.marker_first,
        bugs_deletion.never_retried,
        bugs_deletion.missed_round_forgotten,
        bugs_deletion.confirmed_broker_awaited,
        bugs_deletion.expanded_while_deleted,
        bugs_deletion.pause_ignored,
        bugs_deletion.pause_unknown_after_failover,
        bugs_deletion.zero_id_taken_for_an_id,
        bugs_deletion.young_after_failover,
        bugs_parts.last_part_counts,
        bugs_parts.busy_taken_for_silent,
        bugs_protection.protected_deleted,
        bugs_protection.patterns_not_followed,
        bugs_protection.pace_forgotten_at_the_timer,
        bugs_protection.bucket_always_full,
        bugs_protection.turn_not_noted,
        bugs_removal.removed_taken_for_vanished,
        bugs_removal.changes_during_removal_missed,
        bugs_removal.put_off_for_ever,
        bugs_removal.removed_twice,
        bugs_removal.outcome_of_an_earlier_term,
        bugs_removal.fence_in_background_ignored,
        bugs_slices.any_task_between_slices,
        bugs_slices.oldest_slice_gets_the_result,
        bugs_slices.slice_announced_unwritten,
        bugs_slices.slice_announces_the_doomed,
        bugs_power.epoch_never_raised,
        bugs_power.control_taken_unseen,
        bugs_power.powerless_for_ever,
        bugs_tombstones.silence_awaited_for_ever,
        bugs_tombstones.gone_before_it_is_sent,
        bugs_tombstones.owed_settled_by_errors,
        bugs_tombstones.told_while_it_owes,
        bugs_tombstones.left_at_once,
        bugs_agent.agent_ignores_broker_epoch,
        bugs_agent.agent_ignores_controller_epoch,
        bugs_agent.agent_adopts_any_controller_epoch,
        bugs_agent.agent_obeys_epochs_that_are_over,
        bugs_agent.agent_ignores_topic_ids,
        bugs_agent.agent_remembers_too_long,
        bugs_agent.agent_knows_one_directory,
        *bugs_trash.ALL,
        *bugs_clients.ALL,
    )
}
