#!/usr/bin/env bash
# Fails with what to install unless a Java of version 17 or newer is there: ZooKeeper runs on it.
set -u
java=$(command -v "${JAVA_HOME:+$JAVA_HOME/bin/}java" 2>/dev/null) || java=
if [ -n "$java" ]; then
    text=$("$java" -version 2>&1)
    major=$(sed -nE 's/.* version "([0-9]+).*/\1/p' <<<"$text" | head -n 1)
    [ "${major:-0}" -ge 17 ] && exit 0
    problem="found $java of version ${major:-unknown}"
else
    if [ -n "${JAVA_HOME:-}" ]; then problem="found none in $JAVA_HOME/bin (JAVA_HOME)"; else problem="found none on the PATH"; fi
fi
cat >&2 <<MESSAGE
Lethe's tests and demo start a real ZooKeeper, which needs Java 17 or newer: $problem.
  Debian, Ubuntu:  apt-get install openjdk-17-jre-headless
  Fedora:          dnf install java-17-openjdk-headless
  macOS:           brew install openjdk@17
MESSAGE
exit 1
