# As ../demo.sh, over TLS and with a login; then the same questions from clients that are to be refused. Each has to be
# refused with a sentence that says why.
set -eu
. /compose/run.sh

run sh /compose/demo.sh

refused() { # refused TITLE SENTENCE COMMAND...: the command fails, and says the sentence
    title=$1 sentence=$2
    shift 2
    echo
    echo "== $title"
    if run "$@" > /tmp/refused 2>&1; then
        cat /tmp/refused
        echo "demo: $title: this was not refused" >&2
        exit 1
    fi
    cat /tmp/refused
    grep -q "$sentence" /tmp/refused || {
        echo "demo: $title: the refusal does not say '$sentence'" >&2
        exit 1
    }
}

umask 077
sed 's/password="[^"]*"/password="wrong"/' "$LETHE_COMMAND_CONFIG" > /tmp/wrong.properties
refused "With a wrong password, at the brokers" "refuses user admin" \
    lethe survey --command-config /tmp/wrong.properties
refused "Without the token, at a controller" "401" python -c '
import os, ssl, sys, urllib.error, urllib.request
context = ssl.create_default_context(cafile=os.environ["LETHE_HTTP_CA_FILE"])
try:
    urllib.request.urlopen("https://secure-controller-1:8080/state", timeout=5, context=context)
except urllib.error.HTTPError as answer:
    sys.exit(f"{answer.code}: {answer.read().decode()}")
'
refused "Without a certificate, at ZooKeeper" "certificate" \
    env --unset=KAFKA_ZOOKEEPER_SSL_KEYSTORE_LOCATION --unset=KAFKA_ZOOKEEPER_SSL_KEYSTORE_TYPE lethe topics list
echo
echo "All three were refused."
