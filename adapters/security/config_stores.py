"""Kafka's and ZooKeeper's properties for stores, as settings.

Kafka's rules are those of `DefaultSslEngineFactory.createKeystore` and `createTruststore`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from lethe.adapters.properties import Property
from lethe.adapters.security.config_names import KEYSTORE_TYPE, TRUSTSTORE_TYPE
from lethe.adapters.security.prefixed import Given, PlacedSecret, PrefixedValues
from lethe.adapters.security.stores import StoreKind, StoreSettings

_KEY: Final = "ssl.keystore.key"
_CHAIN: Final = "ssl.keystore.certificate.chain"


def read_kafka_keystore(reader: PrefixedValues) -> StoreSettings | None:
    """Return the key store; None if there is none. Notes problems."""
    kind, password = StoreKind(reader.text(KEYSTORE_TYPE)), _store_password(reader, KEYSTORE_TYPE)
    location, chain, key = reader.given("ssl.keystore.location"), reader.given(_CHAIN), reader.secret(_KEY)
    key_password = reader.secret("ssl.key.password")
    if chain is not None or key is not None:
        _check_inline(reader, KEYSTORE_TYPE, location, chain or key)
        return _inline_keystore(reader, chain, key, key_password)
    if location is None:
        _check_unused(reader, kind, password, "ssl.keystore.location")
        return None
    reader.warn_of_exposure(location.place, Path(location.text))
    return StoreSettings(
        place=location.place,
        kind=kind,
        path=Path(location.text),
        password_name="ssl.keystore.password",
        key_password_name="ssl.key.password",
        password=password,
        key_password=key_password,
    )


def read_kafka_truststore(reader: PrefixedValues) -> StoreSettings | None:
    """Return the truststore; None if there is none. Notes problems."""
    kind, password = StoreKind(reader.text(TRUSTSTORE_TYPE)), _store_password(reader, TRUSTSTORE_TYPE)
    location, inline = reader.given("ssl.truststore.location"), reader.given("ssl.truststore.certificates")
    _check_inline(reader, TRUSTSTORE_TYPE, location, inline)
    given = inline or location
    if given is None:
        _check_unused(reader, kind, password, "ssl.truststore.location")
        return None
    return StoreSettings(
        place=given.place,
        kind=kind,
        path=Path(given.text) if inline is None else None,
        password_name="ssl.truststore.password",
        key_password_name="ssl.truststore.password",
        certificates="" if inline is None else inline.text,
        password=password,
    )


def read_zookeeper_store(reader: PrefixedValues, base: str) -> StoreSettings | None:
    """Return the store below `base`; None if there is none. Notes problems.

    As in ZooKeeper, one password opens a store and decrypts a key in PEM, and the type is optional.
    """
    location, password = reader.given(f"{base}location"), reader.secret(f"{base}password")
    kind = _zookeeper_kind(reader, f"{base}type")
    if location is None:
        _check_unused(reader, kind, password, f"{base}location")
        return None
    if base.endswith("keystore."):
        reader.warn_of_exposure(location.place, Path(location.text))
    return StoreSettings(
        place=location.place,
        kind=kind,
        path=Path(location.text),
        password_name=f"{base}password",
        key_password_name=f"{base}password",
        password=password,
        key_password=password,
    )


def _inline_keystore(
    reader: PrefixedValues, chain: Given | None, key: PlacedSecret | None, key_password: PlacedSecret | None
) -> StoreSettings | None:
    if chain is not None and key is not None:
        return StoreSettings(
            place=chain.place,
            kind=StoreKind.PEM,
            path=None,
            password_name="ssl.keystore.password",
            key_password_name="ssl.key.password",
            certificates=chain.text,
            key=key,
            key_password=key_password,
        )
    if chain is not None:
        reader.wrong_place(chain.place, f"stands without {_KEY}", f"set {_KEY}, or remove the line")
    if key is not None:
        reader.wrong_place(key.place, f"stands without {_CHAIN}", f"set {_CHAIN}, or remove the line")
    return None


def _check_inline(
    reader: PrefixedValues, type_prop: Property, location: Given | None, inline: Given | PlacedSecret | None
) -> None:
    """Inline stores are PEM, and exclude a file."""
    if inline is None:
        return
    kind = reader.text(type_prop)
    if kind != StoreKind.PEM.value:
        reason, remedy = f"is PEM, and {type_prop.name} is {kind}", f"set {type_prop.name}=PEM"
        reader.wrong_place(inline.place, reason, remedy)
    if location is not None:
        reader.wrong(location, f"stands beside {inline.place.name}", "give the store as a file or as PEM, not both")


def _store_password(reader: PrefixedValues, type_prop: Property) -> PlacedSecret | None:
    password = reader.secret(type_prop.name.removesuffix("type") + "password")
    if password is not None and reader.text(type_prop) == StoreKind.PEM.value:
        remedy = "remove it; the password of an encrypted key is ssl.key.password"
        reader.wrong_place(password.place, "stands beside a store of type PEM, which has none", remedy)
    return password


def _check_unused(reader: PrefixedValues, kind: StoreKind | None, password: PlacedSecret | None, location: str) -> None:
    if kind is not StoreKind.PEM and password is not None:
        reader.wrong_place(password.place, "opens no store", f"set {location}, or remove the line")


def _zookeeper_kind(reader: PrefixedValues, name: str) -> StoreKind | None:
    given = reader.given(name)
    if given is None:
        return None
    kinds = {kind.value: kind for kind in StoreKind}
    if given.text.upper() not in kinds:
        reader.wrong(given, "is not one of the possible values", "use one of " + ", ".join(kinds))
    return kinds.get(given.text.upper())
