"""What `spark-submit` runs: the words after this file are those after `lethe`.

    spark-submit --master spark://host:7077 --py-files lethe_kafka-0.1.0-py3-none-any.whl lethe-spark.py \
        pipeline run --journal /shared/journal --lake /shared/lake

It says what the driver's Python lacks, so an older Python has to be able to parse it.
"""

import sys

WHERE = "the driver's Python (%s, %d.%d)" % (sys.executable, *sys.version_info[:2])


def refuse(message):
    sys.stderr.write("lethe: %s\n" % message)
    sys.exit(2)


if sys.version_info < (3, 11):
    refuse("%s is too old for Lethe, which needs 3.11: --conf spark.pyspark.driver.python=PYTHON names another" % WHERE)
try:
    from lethe.cli.main import main

    main()
except ImportError as error:
    if error.name == "lethe":
        refuse("%s does not find Lethe: name its wheel (--py-files FILE.whl), or install it there" % WHERE)
    refuse(
        "%s lacks a package of Lethe, or has it for another Python: %s: pip install 'lethe-kafka[pipeline]' there, or "
        "send an environment of the same Python (--archives)" % (WHERE, error)
    )
