"""For all tests: how much hypothesis searches. `HYPOTHESIS_PROFILE=search` looks at more, and at new examples."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile("quick", max_examples=60, deadline=None, derandomize=True, print_blob=True)
settings.register_profile(
    "search", max_examples=2000, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
