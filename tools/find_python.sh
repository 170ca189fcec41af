#!/usr/bin/env bash
# Prints a Python of version 3.11 or newer; says what to install where there is none. The distribution's own goes before
# others: it is built with profiles of use, and takes 4/5 of the time of a plain build, such as pyenv's.
set -u
for candidate in "${PYTHON:-}" /usr/bin/python3 python3.11 python3.12 python3.13 python3.14 python3 python; do
    [ -n "$candidate" ] || continue
    found=$(command -v "$candidate" 2>/dev/null) || continue
    if "$found" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        echo "$found"
        exit 0
    fi
done
cat >&2 <<'MESSAGE'
Lethe needs Python 3.11 or newer with its venv module, and found none.
  Debian, Ubuntu:  apt-get install python3 python3-venv
  Fedora:          dnf install python3
  macOS:           brew install python@3.12
Or name one:       make PYTHON=/path/to/python3.12 ...
MESSAGE
exit 1
