from __future__ import annotations

import pytest

from lethe.protocol.security.java_patterns import UnsupportedPattern, compile_pattern


@pytest.mark.parametrize(
    "pattern, matched, other",
    [
        ("a.b", "a\tb", "a\u2028b"),
        ("[^,]*", "a\nb", "a,b"),
        ("\\w+", "a_9", "é"),
        ("\\d", "7", "\u0667"),
        ("a$", "a", "ab"),
        ("(?:ab)++c", "ababc", "ab"),
        ("(a)\\1", "aa", "ab"),
        ("\\x41\\u00e9\\.", "Aé.", "Aéx"),
        ("(?i)cn=é", "CN=é", "CN=É"),
        ("[\\]a^-]+", "]a^-", "b"),
        ("a{1,2}", "aa", "aaa"),
        ("}]", "}]", "}"),
    ],
)
def test_patterns_match_what_they_match_in_java(pattern: str, matched: str, other: str) -> None:
    compiled = compile_pattern(pattern)
    assert compiled.fullmatch(matched)
    assert not compiled.fullmatch(other)


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\r", "\x85", "\u2028"])
def test_the_end_of_a_pattern_may_stand_before_the_last_line_terminator(end: str) -> None:
    found = compile_pattern("a$").search(f"a{end}")
    assert found is not None
    assert compile_pattern("\\r$").search("a\r\n") is None


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "\\p{L}",
            "\\b",
            "\\Qa\\E",
            "\\R",
            "\\",
            "\\é",
            "\\0101",
            "\\12",
            "[a[b]]",
            "[a&&b]",
            "[]",
            "[a",
            "a{,3}",
            "{",
        ),
        *("(?s).", "(?i:a)", "a(?i)b", "(", ")", "*", "a**", "(?<=a*)b", "[z-a]", "\\1"),
    ],
)
def test_what_cannot_be_translated_is_refused(pattern: str) -> None:
    with pytest.raises(UnsupportedPattern):
        compile_pattern(pattern)
