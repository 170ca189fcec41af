"""Kafka's own mapper is asked in tests/authorizer; these are cases to read."""

from __future__ import annotations

import pytest

from lethe.protocol.security.principal_mapping import NoPrincipal, PrincipalMapping

NAME = "CN=Ann,OU=Ops,O=Acme"


@pytest.mark.parametrize(
    "rules, name",
    [
        ("DEFAULT", NAME),
        ("RULE:^CN=(.*?),OU=Ops.*$/$1/", "Ann"),
        ("RULE:^CN=(.*?),OU=Ops.*$/$1/L, DEFAULT", "ann"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?)$/$1@$2/U,DEFAULT", "ANN@OPS"),
        ("RULE:^CN=bob$/x/ , RULE:^CN=(?<who>[^,]*).*$/${who}/", "Ann"),
        ("RULE:^CN=bob$/x/, DEFAULT", NAME),
        # Each match is replaced, and the end of the name is a match of its own.
        ("RULE:.*/x/", "xx"),
        ("RULE:.*?/-/", "-C-N-=-A-n-n-,-O-U-=-O-p-s-,-O-=-A-c-m-e-"),
        # A reference to a group that is not there is a text, if the pattern has groups at all.
        ("RULE:^CN=(.*?),.*$/$1@$4/", "Ann@$4"),
        ("RULE:^CN=(.*?),.*$/$12/", "Ann2"),
        ("RULE:^CN=(.*?),.*$/a\\/b/", "a/b"),
        ("RULE:^CN=(.*?)\\,OU\\=.*$/$0/", NAME),
        ("RULE:(?i)^cn=(.*?),.*$/$1/", "Ann"),
    ],
)
def test_the_first_rule_that_matches_the_whole_name_decides(rules: str, name: str) -> None:
    assert PrincipalMapping.parse(rules).name_of(NAME) == name


@pytest.mark.parametrize("rules", ["", "RULE:^CN=bob$/x/", "RULE:Ann/x/"])
def test_a_name_without_a_rule_is_refused_with_the_property(rules: str) -> None:
    with pytest.raises(NoPrincipal, match=r"no rule of ssl\.principal\.mapping\.rules=.*Ann.*or DEFAULT"):
        PrincipalMapping.parse(rules).name_of(NAME)


@pytest.mark.parametrize("rules", ["RULE:.*/$1/", "RULE:(.*)/$/", "RULE:(.*)/${x}/", "RULE:(.*)/$a/"])
def test_a_replacement_that_java_cannot_use_is_refused_when_its_rule_matches(rules: str) -> None:
    mapping = PrincipalMapping.parse(rules)
    with pytest.raises(NoPrincipal, match="the replacement .* cannot be used"):
        mapping.name_of(NAME)


@pytest.mark.parametrize("rules", ["foo", "RULE:a/b", "RULE:^CN=(.*)$/$1/X", "DEFAULT; RULE:a/b/"])
def test_text_that_is_no_rule_is_refused(rules: str) -> None:
    with pytest.raises(ValueError, match=r"ssl\.principal\.mapping\.rules: .* is no rule; write RULE:"):
        PrincipalMapping.parse(rules)


def test_a_pattern_that_cannot_be_translated_is_refused_with_its_place() -> None:
    with pytest.raises(ValueError, match=r"the pattern '\^CN=\\\\p\{L\}\*' cannot be used: '\\p' is not supported"):
        PrincipalMapping.parse("RULE:^CN=\\p{L}*/x/")
