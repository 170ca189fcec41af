# Journals and surveys become tables, and the tables a page.
. "${0%/*}/run.sh"

run lethe pipeline run --journal '/data/*/journal' --surveys /data/surveys --lake /data/lake \
    --master 'local[2]' --conf spark.driver.memory=1g
code=$?
# 1: the audit found that something is broken, which the page tells.
[ "$code" -le 1 ] || exit "$code"
run lethe report --lake /data/lake --out /data/report/report.html || exit
exit "$code"
