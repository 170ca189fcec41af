#!/usr/bin/env bash
# Checks what of deploy/ no test of ours can judge: rules, their unit tests and configurations with promtool, units with
# systemd-analyze. Exit code 1 where something is wrong, 3 where there is no promtool. Where there is no systemd-analyze it
# says so, and its part is left out. (Kubernetes' manifests are checked by tests/unit/deploy.)
set -u
cd "$(dirname "$0")/../deploy" || exit 1
promtool=${PROMTOOL:-promtool}
if ! command -v "$promtool" > /dev/null; then
    echo "deploy-check needs promtool, of Prometheus: apt-get install -y prometheus (Debian 12 has 2.42), or PROMTOOL=/path" >&2
    exit 3
fi
bad=0
(
    cd prometheus || exit 1
    bad=0
    "$promtool" check rules alerts/*.yml || bad=1
    "$promtool" test rules tests/*.test.yml || bad=1
    "$promtool" check config prometheus.yml || bad=1
    "$promtool" check config prometheus-kubernetes.yml || bad=1
    exit "$bad"
) || bad=1

if ! command -v systemd-analyze > /dev/null; then
    echo "systemd's units were left out: there is no systemd-analyze (apt-get install -y systemd)"
    exit "$bad"
fi
# Judged as they would be installed, but that the program is where /opt/lethe/bin/lethe would be.
units=$(mktemp -d)
trap 'rm -rf "$units"' EXIT
for unit in systemd/*.service systemd/*.timer; do
    sed "s|/opt/lethe/bin/lethe|$(command -v true)|" "$unit" > "$units/${unit##*/}"
done
echo "Checking systemd's units ($(systemd-analyze --version | head -n 1))"
# It names faults of this machine's own units as well: only those of ours count.
faults=$(systemd-analyze verify "$units"/* 2>&1 | grep -F -e "$units" -e lethe-)
if [ -n "$faults" ]; then
    echo "$faults"
    bad=1
fi
for unit in "$units"/*.service; do
    # 10 is everything allowed; a service without any setting has 9.6.
    systemd-analyze security --no-pager --offline=true --threshold=20 "$unit" 2>&1 | tail -n 1
    [ "${PIPESTATUS[0]}" -eq 0 ] || bad=1
done
exit "$bad"
