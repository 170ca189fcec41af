# Journals and surveys become tables, and the tables a page.
# As the command, but whoever stops the container is heard at once: a shell that waits for a command hears nobody.
run() {
    "$@" &
    child=$!
    trap 'stopped=yes; kill "$child" 2> /dev/null' TERM INT
    ended=0
    wait "$child" || ended=$?
    if [ "${stopped-}" = yes ]; then
        wait "$child"
        exit 143
    fi
    return "$ended"
}

run lethe pipeline run --journal '/data/*/journal' --surveys /data/surveys --lake /data/lake \
    --master 'local[2]' --conf spark.driver.memory=1g
code=$?
# 1: the audit found that something is broken, which the page tells.
[ "$code" -le 1 ] || exit "$code"
run lethe report --lake /data/lake --out /data/report/report.html || exit
exit "$code"
