"""What a scrape shows of certificates and refusals, and what it does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from lethe.adapters.config_common import JournalTopicConfig
from lethe.adapters.config_http import HttpConfig
from lethe.adapters.kafka.reach import BrokerReach
from lethe.adapters.metric_families import written
from lethe.adapters.security.access import AccessSettings
from lethe.adapters.security.channel import ChannelSecurity
from lethe.adapters.security.inbound import Inbound, InboundSettings, ListenerSettings
from lethe.adapters.security.prefixed import Place
from lethe.adapters.security.refusal_counts import RefusalReason
from lethe.adapters.security.stores import StoreSettings
from lethe.adapters.security.tls import ClientAuth, TlsMaterial, TlsSettings
from lethe.adapters.security_metrics import METRICS, SecurityMetrics, security_metrics
from lethe.adapters.zookeeper.config import ZooKeeperTls
from lethe.protocol.vocabulary import SecurityProtocol
from tests.fakes.certificates import DAY, Authority, Leaf
from tests.fakes.runtime import controller_config

EXPIRY, TRUST, UNUSABLE = (metric.name for metric in METRICS[:3])
REFUSED, AT_PEERS, DENIED = (metric.name for metric in METRICS[3:])

Rows = dict[tuple[str, ...], float]


def scraped(security: SecurityMetrics, name: str) -> Rows:
    """Values of a metric by its labels' values, in the order in which it declares them."""
    (declared,) = [metric for metric in METRICS if metric.name == name]
    families = text_string_to_metric_families(written(security.families()).decode())
    found = [sample for family in families for sample in family.samples if sample.name == name]
    assert all(set(sample.labels) == set(declared.labels) for sample in found)
    return {tuple(sample.labels[label] for label in declared.labels): sample.value for sample in found}


def store(path: Path, kind: str) -> StoreSettings:
    return StoreSettings(Place(f"ssl.{kind}.location", "f:1"), None, path, f"ssl.{kind}.password", "ssl.key.password")


def material(leaf: Leaf, path: Path, trusted: Path | None = None, auth: ClientAuth = ClientAuth.NONE) -> TlsMaterial:
    trust = None if trusted is None else store(trusted, "truststore")
    return TlsMaterial(TlsSettings(store(leaf.pem_file(path), "keystore"), trust, client_auth=auth))


def ends_s(leaf: Leaf) -> float:
    return leaf.ends_ms() / 1000


def test_nothing_is_shown_of_certificates_and_clients_where_there_is_neither_tls_nor_login() -> None:
    config = controller_config()
    security = security_metrics(config, Inbound(InboundSettings({"PLAINTEXT": ListenerSettings()})))
    security.look()
    assert {name: scraped(security, name) for name in (EXPIRY, TRUST, UNUSABLE, REFUSED, DENIED)} == {
        EXPIRY: {},
        TRUST: {},
        UNUSABLE: {},
        REFUSED: {},
        DENIED: {},
    }


def test_each_use_shows_its_own_certificate_and_what_it_trusts(tmp_path: Path) -> None:
    ca, other = Authority(ends=90 * DAY), Authority(ends=70 * DAY)
    trusted, others = ca.pem_file(tmp_path / "ca.pem"), other.pem_file(tmp_path / "other.pem")
    leaves = [ca.issue(ends=days * DAY) for days in (1, 2, 3, 4, 5)]
    a, b, c, d, e = (material(leaf, tmp_path / f"{n}.pem", trusted) for n, leaf in enumerate(leaves))
    asking = material(leaves[0], tmp_path / "asking.pem", others, ClientAuth.REQUESTED)

    def reach(tls: TlsMaterial, name: str | None = None) -> BrokerReach:
        return BrokerReach(name, {SecurityProtocol.SSL: ChannelSecurity(tls.client_context, material=tls)})

    config = replace(
        controller_config(),
        http=HttpConfig("127.0.0.1", 0, tls=b),
        reach=reach(c, "BETWEEN"),
        zookeeper=replace(controller_config().zookeeper, tls=ZooKeeperTls(d.client_context, True, d)),
        journal_topic=JournalTopicConfig(("b:9093",), "journal", reach(e)),
    )
    settings = {"ASKING": ListenerSettings(asking), "INTERNAL": ListenerSettings(a)}
    security = security_metrics(config, Inbound(InboundSettings(settings)))
    security.look()
    uses = (("listener", "INTERNAL"), ("http", ""), ("brokers", "BETWEEN"), ("zookeeper", ""), ("journal", ""))
    ends = dict(zip(uses, map(ends_s, leaves), strict=True))
    assert scraped(security, EXPIRY) == ends | {("listener", "ASKING"): ends_s(leaves[0])}
    # A listener that asks for no certificates trusts nobody, whatever is in its truststore.
    trust_s = [int(each.certificate.not_valid_after_utc.timestamp()) for each in (ca, other)]
    assert scraped(security, TRUST) == dict.fromkeys(uses[2:], trust_s[0]) | {("listener", "ASKING"): trust_s[1]}
    assert scraped(security, UNUSABLE) == dict.fromkeys((*uses, ("listener", "ASKING")), 0)


def test_a_changed_file_is_seen_at_the_next_look_and_an_unusable_one_is_said(tmp_path: Path) -> None:
    ca, path = Authority(), tmp_path / "key.pem"
    old, new = ca.issue(), ca.issue(ends=60 * DAY)
    config = replace(controller_config(), http=HttpConfig("127.0.0.1", 0, tls=material(old, path)))
    security = security_metrics(config, Inbound(InboundSettings()))
    for write, leaf, unusable in (
        (lambda: None, old, 0),
        (lambda: path.write_text("no certificate"), old, 1),
        (lambda: new.pem_file(path), new, 0),
        (path.unlink, new, 1),
    ):
        write()
        security.look()
        assert scraped(security, EXPIRY) == {("http", ""): ends_s(leaf)}
        assert scraped(security, UNUSABLE) == {("http", ""): unusable}


def test_refusals_are_counted_from_zero_by_use_listener_and_reason(tmp_path: Path) -> None:
    tls = material(Authority().issue(), tmp_path / "key.pem")
    settings = {"A": ListenerSettings(tls), "B": ListenerSettings(mechanisms=("SCRAM-SHA-512",))}
    inbound = Inbound(InboundSettings(settings, AccessSettings()))
    config = replace(controller_config(), reach=BrokerReach())
    security = security_metrics(config, inbound)
    of_b = ("login", "no_login", "unfinished", "unchecked")
    zeros = {
        **{("listener", "A", reason): 0 for reason in ("tls", "unfinished")},
        **{("listener", "B", reason): 0 for reason in of_b},
    }
    assert scraped(security, REFUSED) == zeros
    inbound.admission("B").refused.note(RefusalReason.LOGIN)
    assert scraped(security, REFUSED) == zeros | {("listener", "B", "login"): 1}
    peers = {(use, "", reason): 0 for use in ("brokers", "zookeeper") for reason in ("tls", "login")}
    assert scraped(security, AT_PEERS) == peers
    (reach,) = config.reach.security.values()
    reach.refused.note(RefusalReason.TLS)
    config.zookeeper.session().refused.note(RefusalReason.LOGIN)
    assert scraped(security, AT_PEERS) == peers | {("zookeeper", "", "login"): 1, ("brokers", "", "tls"): 1}
    denied = scraped(security, DENIED)
    assert set(denied.values()) == {0}
    assert ("ClusterAction", "Cluster") in denied
