"""Paths of clients' quotas, as kafka-configs of 3.9 writes them."""

from lethe.protocol.zookeeper.quota_paths import quota_of_client, quota_of_user, quota_of_user_client


def test_named_and_default_entities() -> None:
    assert quota_of_user("CN=a b") == "/config/users/CN%3Da%20b"
    assert quota_of_user(None) == "/config/users/<default>"
    assert quota_of_client("<default>") == "/config/clients/%3Cdefault%3E"
    assert quota_of_client(None) == "/config/clients/<default>"
    assert quota_of_user_client("ann", "a/b") == "/config/users/ann/clients/a%2Fb"
    assert quota_of_user_client(None, None) == "/config/users/<default>/clients/<default>"
