# To be sourced (`. "${0%/*}/run.sh"`): how the scripts beside it run a command.

# As the command, but whoever stops the container is heard at once: a shell that waits for a command hears nobody.
run() {
    child=
    trap 'stopped=yes; [ -z "$child" ] || kill "$child" 2> /dev/null || :' TERM INT
    "$@" &
    child=$!
    # Asked to stop in between, it has told nobody yet.
    [ -z "${stopped-}" ] || kill "$child" 2> /dev/null || :
    ended=0
    wait "$child" || ended=$?
    if [ "${stopped-}" = yes ]; then
        wait "$child"
        exit 143
    fi
    return "$ended"
}
