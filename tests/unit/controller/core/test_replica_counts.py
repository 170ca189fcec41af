"""What each broker has yet to delete, counted where states change."""

from tests.fakes.one_controller import OneController, Refusing


def world_of(*brokers: int) -> OneController:
    world = OneController()
    for broker in brokers:
        world.start_broker(broker)
    world.elect()
    return world


def test_what_an_absent_broker_has_yet_to_delete_is_counted_until_it_has() -> None:
    world = world_of(1)
    world.create_topic("orders", (1, 2), (2, 1), (1,))
    world.create_topic("bills", (1,))
    world.run()
    assert world.context.cluster.waiting_replicas == {}
    world.mark("orders")
    world.mark("bills")
    world.run()
    assert world.context.cluster.waiting_replicas == {2: 2}
    world.start_broker(2)
    world.run()
    assert (world.context.cluster.waiting_replicas, dict(world.context.cluster.deletions)) == ({}, {})


def test_a_refusal_is_still_to_be_deleted_and_a_resignation_forgets() -> None:
    world = world_of(1, 2)
    world.create_topic("orders", (1, 2), (1, 2))
    world.run()
    world.answer = Refusing(2, error=-1)
    world.mark("orders")
    world.run()
    assert world.context.cluster.waiting_replicas == {2: 2}
    world.crash()
    world.elect()
    assert world.context.cluster.waiting_replicas == {2: 2}
