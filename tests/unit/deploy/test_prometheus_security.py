"""The commented settings for token and certificate: without the comment signs they are a configuration."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from lethe.adapters.config_http import HTTP

DEPLOY = Path(__file__).parents[3] / "deploy"
SCRAPED = ("prometheus.yml", "prometheus-kubernetes.yml")


@pytest.mark.parametrize("name", SCRAPED)
def test_each_job_of_ours_has_scheme_token_and_authority(name: str) -> None:
    text = (DEPLOY / "prometheus" / name).read_text()
    begin = "    # Where lethe.http.token.file"
    opened = re.sub(rf"(?m)^{re.escape(begin)}.*\n((?:    # .*\n)+)", lambda found: found[1].replace("# ", ""), text)
    plain, secure = yaml.safe_load(text), yaml.safe_load(opened)
    # Surveys' counts are served by the node exporter, or by a service of the compose file.
    for config in (plain, secure):
        config["scrape_configs"] = [job for job in config["scrape_configs"] if job["job_name"] != "lethe-survey"]
    assert [job["job_name"] for job in secure["scrape_configs"]] == ["lethe-controller", "lethe-broker"]
    for job, bare in zip(secure["scrape_configs"], plain["scrape_configs"], strict=True):
        assert job == bare | {
            "scheme": "https",
            "authorization": {"credentials_file": "/etc/prometheus/lethe-http-token"},
            "tls_config": {"ca_file": "/etc/prometheus/lethe-ca.pem"},
        }


@pytest.mark.parametrize("kind", ["controller", "broker"])
def test_what_the_example_files_name_in_comments_are_properties(kind: str) -> None:
    text = (DEPLOY / "systemd" / f"{kind}.properties").read_text()
    named = re.findall(r"(?m)^#(lethe\.http\.[a-z.]+)=", text)
    assert named
    assert set(named) <= {prop.name for prop in HTTP}
