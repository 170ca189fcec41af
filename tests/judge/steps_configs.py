"""Steps about configurations, quotas, SCRAM users, ACLs and delegation tokens."""

from __future__ import annotations

from typing import Any, Final

from tests.judge.step import Client, Step
from tests.judge.steps_topics import ORDER


def _config(*words: str, client: Client = Client.TOOLS, **more: Any) -> Step:
    return Step(client, ("ConfigCommand", *words), free=ORDER, **more)


def _admin(*words: str, **more: Any) -> Step:
    return Step(Client.ADMIN, words, **more)


def _entity(kind: str, name: str) -> tuple[str, ...]:
    return ("--entity-type", kind, "--entity-name", name)


_ALTER: Final = "--alter"
_TOPIC: Final = _entity("topics", "settings")
_BROKER: Final = _entity("brokers", "1")
_BROKERS: Final = ("--entity-type", "brokers", "--entity-default")
_USER: Final = _entity("users", "judge")
_CLIENT: Final = _entity("clients", "judge")
_IP: Final = _entity("ips", "127.0.0.9")
_SCRAM: Final = "SCRAM-SHA-256=[iterations=4096,password=secret]"
TOPICS: Final = (
    _admin("create", "settings@1.2", note="to be configured"),
    _config(*_TOPIC, "--describe", note="nothing is set"),
    _config(*_TOPIC, _ALTER, "--add-config", "retention.ms=5000,cleanup.policy=[compact,delete]"),
    _config(*_TOPIC, "--describe"),
    _config(*_TOPIC, "--describe", "--all"),
    _config("--topic", "settings", "--describe"),
    _config(*_TOPIC, _ALTER, "--add-config", "retention.ms=soon"),
    _config(*_TOPIC, _ALTER, "--add-config", "no.such.config=1"),
    _config(*_TOPIC, _ALTER, "--add-config", "min.insync.replicas=0"),
    _config(*_TOPIC, _ALTER, "--delete-config", "cleanup.policy"),
    _config(*_TOPIC, _ALTER, "--delete-config", "cleanup.policy", note="again"),
    _config(*_TOPIC, _ALTER, "--delete-config", "no.such.config"),
    _config(*_TOPIC, _ALTER, "--add-config", "retention.bytes=9", "--delete-config", "retention.ms"),
    _config(*_TOPIC, "--describe", note="at last"),
    _config(*_entity("topics", "nothing"), "--describe"),
    _config(*_entity("topics", "nothing"), _ALTER, "--add-config", "retention.ms=1"),
    _admin("set-config", "TOPIC", "settings", "retention.ms=7000", "segment.bytes=2000000"),
    _admin("check-config", "TOPIC", "settings", "retention.ms=8000"),
    _admin("check-config", "TOPIC", "settings", "retention.ms=soon"),
    _admin("append-config", "TOPIC", "settings", "cleanup.policy=compact"),
    _admin("append-config", "TOPIC", "settings", "retention.ms=1"),
    _admin("subtract-config", "TOPIC", "settings", "cleanup.policy=delete"),
    _admin("set-config", "TOPIC", "settings", "retention.ms="),
    _admin("delete-config", "TOPIC", "settings", "segment.bytes="),
    _admin("configs", "TOPIC", "settings"),
    _admin("replace-configs", "TOPIC", "settings", "retention.ms=9000"),
    _admin("configs", "TOPIC", "settings", note="replaced"),
    _admin("configs", "TOPIC", "nothing"),
    _admin("set-config", "TOPIC", "nothing", "retention.ms=1"),
    _config(*_TOPIC, _ALTER, "--add-config", "retention.ms=4000", client=Client.OLD_TOOLS),
    _config(*_TOPIC, "--describe", client=Client.OLD_TOOLS),
)
BROKERS: Final = (
    _config(*_BROKER, "--describe", note="nothing is set"),
    _config(*_BROKER, _ALTER, "--add-config", "log.cleaner.threads=2"),
    _config(*_BROKER, "--describe", shows="log.cleaner.threads=2"),
    _config(*_BROKER, _ALTER, "--add-config", "log.cleaner.threads=many"),
    _config(*_BROKER, _ALTER, "--add-config", "broker.id=7"),
    _config(*_BROKER, _ALTER, "--add-config", "no.such.config=1"),
    _config(*_BROKER, _ALTER, "--delete-config", "log.cleaner.threads"),
    _config(*_BROKER, _ALTER, "--delete-config", "log.cleaner.threads", note="again"),
    _config(*_BROKERS, _ALTER, "--add-config", "log.cleaner.threads=2"),
    _config(*_BROKERS, "--describe", shows="log.cleaner.threads=2"),
    _config(*_BROKERS, _ALTER, "--delete-config", "log.cleaner.threads"),
    _config(*_entity("brokers", "one"), "--describe"),
    _config(*_entity("broker-loggers", "1"), _ALTER, "--add-config", "kafka.server.KafkaApis=DEBUG"),
    _config(*_entity("broker-loggers", "1"), _ALTER, "--add-config", "kafka.server.KafkaApis=LOUD"),
    _config(*_entity("broker-loggers", "1"), _ALTER, "--delete-config", "kafka.server.KafkaApis"),
    _admin("set-config", "BROKER", "1", "log.cleaner.threads=2"),
    _admin("configs", "BROKER", "1", shows="log.cleaner.threads=2"),
    _admin("delete-config", "BROKER", "1", "log.cleaner.threads="),
    _admin("set-config", "BROKER", "-", "log.cleaner.threads=2"),
    _admin("configs", "BROKER", "-", shows="log.cleaner.threads=2"),
    _admin("delete-config", "BROKER", "-", "log.cleaner.threads="),
)
QUOTAS: Final = (
    _config(*_USER, _ALTER, "--add-config", "producer_byte_rate=1024,consumer_byte_rate=2048"),
    _config(*_USER, "--describe", shows="producer_byte_rate"),
    _config(*_CLIENT, _ALTER, "--add-config", "request_percentage=50"),
    _config(*_USER, *_CLIENT, _ALTER, "--add-config", "controller_mutation_rate=100"),
    _config("--entity-type", "users", "--entity-default", _ALTER, "--add-config", "producer_byte_rate=4096"),
    _config(*_IP, _ALTER, "--add-config", "connection_creation_rate=1000"),
    _config(*_IP, "--describe", shows="connection_creation_rate"),
    _config("--entity-type", "users", "--describe"),
    _config("--entity-type", "clients", "--describe"),
    _admin("quotas", shows="controller_mutation_rate"),
    _config(*_USER, _ALTER, "--add-config", "producer_byte_rate=much"),
    _config(*_USER, _ALTER, "--add-config", "no_such_quota=1"),
    _config(*_IP, _ALTER, "--add-config", "producer_byte_rate=1"),
    _admin("set-quota", "user=judge", "producer_byte_rate=1.5"),
    _admin("set-quota", "user=judge", "producer_byte_rate=-1"),
    _admin("set-quota", "user=judge,ip=127.0.0.1", "producer_byte_rate=1"),
    _admin("set-quota", "planet=mars", "producer_byte_rate=1"),
    _config(*_USER, _ALTER, "--delete-config", "producer_byte_rate,consumer_byte_rate"),
    _config(*_USER, _ALTER, "--delete-config", "producer_byte_rate", note="again"),
    _config(*_CLIENT, _ALTER, "--delete-config", "request_percentage"),
    _config(*_USER, *_CLIENT, _ALTER, "--delete-config", "controller_mutation_rate"),
    _config("--entity-type", "users", "--entity-default", _ALTER, "--delete-config", "producer_byte_rate"),
    _config(*_IP, _ALTER, "--delete-config", "connection_creation_rate"),
    _admin("quotas", note="all are deleted", shows=r"quotas: \{\}"),
)
MUTATIONS: Final = (
    _admin("set-quota", "client-id=judge", "controller_mutation_rate=0.01", note="one change in 100 s"),
    _admin("quotas", note="on changes", shows=r"controller_mutation_rate=0\.01"),
    _admin("create-once", "quota@1.2,2.1,1.3", note="the last one that the bucket lets through"),
    _admin("create-once", "quota-more@1", note="above the quota"),
    _admin("grow-once", "quota:4", note="above the quota"),
    _admin("check-create", "quota-more@1", note="costs nothing"),
    _admin("delete-once", "quota", note="above the quota"),
    _admin("set-quota", "client-id=judge", "controller_mutation_rate=", note="no quota any more"),
    _admin("quotas", note="on changes no more", shows=r"quotas: \{\}"),
    _admin("delete-once", "quota", "quota-more", note="the quota is gone, and one was not made above the quota"),
)
SCRAM: Final = (
    _config(*_USER, _ALTER, "--add-config", _SCRAM),
    _config(*_USER, "--describe", note="with a SCRAM credential"),
    _config(*_USER, _ALTER, "--add-config", "SCRAM-SHA-512=[iterations=1,password=secret]"),
    _config(*_USER, _ALTER, "--add-config", "SCRAM-SHA-256=[password=]"),
    _config(*_USER, _ALTER, "--delete-config", "SCRAM-SHA-256"),
    _config(*_USER, _ALTER, "--delete-config", "SCRAM-SHA-256", note="again"),
    _admin("set-scram", "judge", "SCRAM-SHA-512", "4096", "secret"),
    _admin("set-scram", "judge", "SCRAM-SHA-512", "1", "secret"),
    _admin("set-scram", "", "SCRAM-SHA-512", "4096", "secret"),
    _admin("scram-users"),
    _admin("delete-scram", "judge", "SCRAM-SHA-512"),
    _admin("delete-scram", "judge", "SCRAM-SHA-512", note="again"),
)
_CONFIG_FILE: Final = ("--command-config", "{dir:client.properties}")
_FILES: Final = {"client.properties": "client.id=judge\n"}


def _token(*words: str) -> Step:
    return Step(Client.TOOLS, ("DelegationTokenCommand", *_CONFIG_FILE, *words), files=_FILES)


def _acl(*words: str) -> Step:
    return Step(Client.TOOLS, ("AclCommand", *words))


_RULE: Final = ("--allow-principal", "User:judge", "--operation", "Read", "--topic", "settings")
SECURITY: Final = (
    _acl("--list"),
    _acl("--add", *_RULE),
    _acl("--remove", *_RULE, "--force"),
    _acl("--add", "--topic", "settings"),
    _admin("acls"),
    _admin("create-acl", "settings"),
    _admin("delete-acl", "settings"),
    _token("--create", "--max-life-time-period", "-1"),
    _token("--describe"),
    _token("--renew", "--renew-time-period", "-1", "--hmac", "c2VjcmV0"),
    _token("--expire", "--expiry-time-period", "-1", "--hmac", "c2VjcmV0"),
    _admin("create-token"),
    _admin("tokens"),
)
STEPS: Final = (*TOPICS, *BROKERS, *QUOTAS, *MUTATIONS, *SCRAM, *SECURITY)
