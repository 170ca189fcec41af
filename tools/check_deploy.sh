#!/usr/bin/env bash
# Checks deploy/prometheus with promtool: rules, their unit tests, the configuration. Exit code 3 where there is no promtool.
set -u
cd "$(dirname "$0")/../deploy/prometheus" || exit 1
promtool=${PROMTOOL:-promtool}
if ! command -v "$promtool" > /dev/null; then
    echo "deploy-check needs promtool, of Prometheus: apt-get install -y prometheus (Debian 12 has 2.42), or PROMTOOL=/path" >&2
    exit 3
fi
bad=0
"$promtool" check rules alerts/*.yml || bad=1
"$promtool" test rules tests/*.test.yml || bad=1
"$promtool" check config prometheus.yml || bad=1
exit "$bad"
