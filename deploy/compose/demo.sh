# Creates topics, deletes them while you watch, and looks whether anything of them is left: in ZooKeeper, in the brokers'
# metadata caches, on their disks. DEMO_ROUNDS says how often (0: until it is stopped), DEMO_TOPICS how many topics.
set -eu
rounds=${DEMO_ROUNDS:-1}
topics=${DEMO_TOPICS:-3}
limit_s=120
trap 'exit 143' TERM
trap 'exit 130' INT

. "${0%/*}/run.sh"

say() {
    echo
    echo "== $*"
}

brokers() { # how many are registered
    lethe brokers list --offline --json 2> /dev/null |
        python -c 'import json, sys; print(len(json.load(sys.stdin)["brokers"]))' 2> /dev/null || echo 0
}

clean() { # nothing is left, and what was set aside is freed
    run lethe survey > /tmp/survey 2>&1
}

within() { # within WHAT COMMAND...: waits until the command succeeds
    what=$1
    shift
    waited=0
    until "$@"; do
        waited=$((waited + 2))
        if [ "$waited" -gt "$limit_s" ]; then
            echo "demo: $what: not within $limit_s s" >&2
            return 1
        fi
        sleep 2
    done
}

enough() {
    [ "$(brokers)" -ge 3 ]
}

say "Waiting for three brokers"
within "three brokers are registered (docker compose --profile agents or --profile kafka up)" enough
lethe brokers list

round=0
while [ "$rounds" -eq 0 ] || [ "$round" -lt "$rounds" ]; do
    round=$((round + 1))
    prefix="demo-$(date +%H%M%S)"
    say "Creating $topics topics"
    number=0
    while [ "$number" -lt "$topics" ]; do
        number=$((number + 1))
        run lethe topics create --topic "$prefix-$number" --partitions 4 --replication-factor 3
    done
    lethe brokers list
    say "Deleting them"
    run lethe topics delete --topic "$prefix-.*" --yes --wait
    say "Looking at all three places"
    within "nothing is left" clean || {
        cat /tmp/survey
        exit 1
    }
    cat /tmp/survey
done
