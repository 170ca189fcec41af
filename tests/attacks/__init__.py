"""Attacks on running daemons, each tried as a program: see docs/attacks.md."""
