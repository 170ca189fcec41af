"""What `lethe doctor` could not see, and why. Pure.

Each answer of a broker counts for itself, since each request needs a right of its own:

    a user with no right        Describe on all topics, Describe on the cluster and ClusterAction are named at once
    a broker that is away       one line: what it would say of the others is not known
"""

from __future__ import annotations

from collections.abc import Iterator

from lethe.admin.doctor_look import DoctorView
from lethe.admin.rescue_ghosts import compared
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper import paths
from lethe.survey.broker_settings import DELETE_TOPIC_ENABLE
from lethe.survey.views import Problem


def unseen(view: DoctorView) -> Iterator[Problem]:
    """Yield the places, and why each was not seen."""
    tree = view.survey.zookeeper
    told = [*view.survey.problems, *view.others.problems]
    said = list(dict.fromkeys(problem for problem in told if problem.where not in view.malformed))
    yield from said
    for broker, why in compared(view.survey).unseen:
        if all(problem.what != why for problem in said):
            yield Problem(f"metadata cache of broker {broker}", why)
    failed = {problem.where for problem in said}
    for broker, why in (*_unseen_epochs(view), *_unseen_settings(view)):
        where = f"broker {broker}"
        # A broker that refuses one request may refuse this one for another right. One that is away has said why.
        if view.survey.response_of(broker).answers or where not in failed:
            yield Problem(where, why)
    if tree.controller_epoch is None and tree.brokers and tree.could_read(paths.CONTROLLER_EPOCH):
        yield Problem(paths.CONTROLLER_EPOCH, "there is none: whether brokers accept the controller is not known")


def _unseen_epochs(view: DoctorView) -> Iterator[tuple[BrokerId, str]]:
    for each in view.epochs:
        if not each.is_known:
            yield each.broker, f"whether it accepts the controller epoch is not known: {each.why}"


def _unseen_settings(view: DoctorView) -> Iterator[tuple[BrokerId, str]]:
    """Yield brokers that may keep marked topics: they did not return `delete.topic.enable`."""
    is_told = view.evidence.holds.delete_topic_enable is not None or view.evidence.reported.is_known
    for each in () if is_told or not view.survey.zookeeper.marked else view.settings:
        if (why := each.unseen or each.problem) is not None:
            yield each.broker, f"whether its {DELETE_TOPIC_ENABLE} is false is not known: {why}"
