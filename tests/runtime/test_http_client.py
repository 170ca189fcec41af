"""Commands that ask an HTTP server: where the token is sent, whom they believe, and what they say when it fails."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from lethe.adapters.http import Reply, Request, Route, json_reply, serve_http
from lethe.adapters.http_access import HttpAccess
from lethe.adapters.http_client import CA_VARIABLE, TOKEN_VARIABLE, HttpCredentials, HttpFailed, get_json
from lethe.adapters.http_token import BearerTokens
from lethe.admin.controllers import ask_controller, ask_state
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create
from lethe.protocol.zookeeper.znodes import ControllerZnode, encode_controller
from tests.fakes.certificates import Authority
from tests.fakes.zookeeper import FakeZooKeeper
from tests.fakes.zookeeper_cluster import apply

LIMIT_MS = 30_000
TOKEN = "0123456789abcdef" * 4


def _state(_: Request) -> Reply:
    return json_reply({"role": "active"})


def _elsewhere(_: Request) -> Reply:
    return Reply(302, b"", headers={"Location": "http://127.0.0.1:1/"})


def _broken(_: Request) -> Reply:
    return Reply(500, b"[]", "application/json")


ROUTES = (
    Route("/state", _state),
    Route("/explain", _state),
    Route("/elsewhere", _elsewhere),
    Route("/broken", _broken),
)


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"# the first one is sent\n{TOKEN}\n{'f' * 64}\n")
    return path


async def failure(url: str, credentials: HttpCredentials) -> str:
    with pytest.raises(HttpFailed) as failed:
        await get_json(url, credentials, LIMIT_MS)
    assert TOKEN not in str(failed.value)
    return str(failed.value)


async def test_the_token_opens_and_without_it_the_remedy_is_named(token: Path) -> None:
    async with serve_http("127.0.0.1", 0, ROUTES, access=HttpAccess(BearerTokens(token))) as server:
        url = server.url + "/state"
        assert await get_json(url, HttpCredentials(token), LIMIT_MS) == {"role": "active"}
        said = await failure(url, HttpCredentials())
        assert said.startswith(f"{url} answered 401: a token is needed")
        assert said.endswith("(--controller-token-file, or LETHE_HTTP_TOKEN_FILE, names the file for commands)")


async def test_an_error_without_a_reason_is_said_to_have_none() -> None:
    async with serve_http("127.0.0.1", 0, ROUTES) as server:
        said = await failure(server.url + "/broken", HttpCredentials())
    assert said == f"{server.url}/broken answered 500, without a reason"


async def test_commands_take_the_token_from_the_environment(token: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        serve_http("127.0.0.1", 0, ROUTES, access=HttpAccess(BearerTokens(token))) as server,
        FakeZooKeeper().open_session(lambda _: None) as session,
    ):
        controller = encode_controller(ControllerZnode(BrokerId(1001), admin=server.url))
        await apply(session, Create(paths.CONTROLLER, controller))
        assert "answered 401" in str(await ask_state(session))
        assert "answered 401" in str((await ask_controller(server.url, None, LIMIT_MS)).problem)
        monkeypatch.setenv(TOKEN_VARIABLE, str(token))
        assert await ask_state(session) == {"role": "active"}


@pytest.mark.parametrize("url", ["http://10.255.255.1:8080/state", "http://controller-1:8080/state"])
async def test_a_token_is_never_sent_in_clear_to_an_address_that_zookeeper_names(token: Path, url: str) -> None:
    said = await failure(url, HttpCredentials(token))
    assert said.startswith(f"{url} is not asked, because it would get the token unencrypted")
    assert "--controller-url" in said


async def test_a_redirect_is_not_followed(token: Path) -> None:
    async with serve_http("127.0.0.1", 0, ROUTES) as server:
        assert await failure(server.url + "/elsewhere", HttpCredentials(token))


async def test_a_token_file_that_is_no_good_is_named(tmp_path: Path) -> None:
    said = await failure("http://127.0.0.1:1/state", HttpCredentials(tmp_path / "none"))
    assert "is not asked: token file" in said
    assert "does not exist; name an existing file" in said


# --- TLS ------------------------------------------------------------------------------------------------------------


def context(authority: Authority, directory: Path, *hosts: str) -> ssl.SSLContext:
    leaf = authority.issue(hosts=hosts) if hosts else authority.expired()
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(leaf.pem_file(directory / "server.pem"))
    return made


async def test_a_server_is_believed_by_the_authority_that_is_named(
    token: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, other = Authority(), Authority("another one")
    ca, other_ca = authority.pem_file(tmp_path / "ca.pem"), other.pem_file(tmp_path / "other.pem")
    tls = context(authority, tmp_path, "127.0.0.1")
    access = HttpAccess(BearerTokens(token))
    async with serve_http("127.0.0.1", 0, ROUTES, access=access, tls=lambda: tls) as server:
        url = server.url + "/state"
        assert await get_json(url, HttpCredentials(token, ca), LIMIT_MS) == {"role": "active"}
        for credentials in (HttpCredentials(token), HttpCredentials(token, other_ca)):
            said = await failure(url, credentials)
            assert said == (
                f"{url} is not trusted: its certificate is issued by an authority that is not trusted here; "
                "name the CA that signs it (--controller-ca-file, or LETHE_HTTP_CA_FILE)"
            )
        monkeypatch.setenv(CA_VARIABLE, str(ca))
        assert await get_json(url, HttpCredentials.from_environment(token), LIMIT_MS) == {"role": "active"}


OTHER_HOST = (
    "its certificate does not name '127.0.0.1' among its subject alternative names (its CN counts only where it has "
    "none, and never for an address); connect by a name that it has, or issue one with the name"
)
EXPIRED = "its certificate has expired; renew it there, and check this machine's clock"


@pytest.mark.parametrize("hosts,problem", [(("127.0.0.2",), OTHER_HOST), ((), EXPIRED)])
async def test_a_certificate_of_another_host_or_that_has_expired_is_refused(
    tmp_path: Path, hosts: tuple[str, ...], problem: str
) -> None:
    authority = Authority()
    tls = context(authority, tmp_path, *hosts)
    async with serve_http("127.0.0.1", 0, ROUTES, tls=lambda: tls) as server:
        url = server.url + "/state"
        credentials = HttpCredentials(ca_file=authority.pem_file(tmp_path / "ca.pem"))
        assert await failure(url, credentials) == f"{url} is not trusted: {problem}"


async def test_a_server_of_plain_http_and_a_ca_file_that_is_none_are_named(tmp_path: Path) -> None:
    async with serve_http("127.0.0.1", 0, ROUTES) as server:
        url = server.url.replace("http:", "https:") + "/state"
        assert "is it a server of plain HTTP?" in await failure(url, HttpCredentials())
        said = await failure(url, HttpCredentials(ca_file=tmp_path / "none.pem"))
        assert "is not asked: CA file" in said
        assert "none.pem: does not exist; name an existing file" in said
        (tmp_path / "text.pem").write_text("no certificate")
        assert "name a file with certificates in PEM" in await failure(
            url, HttpCredentials(None, tmp_path / "text.pem")
        )
