"""TLS: own authorities, client certificates, and who is refused. A refusal is an outage, never plain text."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from certificates import Authority, Pair
from programs import Driver, Recipe, Running, Workshop
from redis_servers import RedisServer, free_port

BUDGET_S = 2.0


class Papers:
    """Our authority, and a stranger's."""

    def __init__(self, directory: Path) -> None:
        self.ours = Authority(directory / "ours", "ours")
        self.stranger = Authority(directory / "stranger", "stranger")
        self.server = self.ours.sign("server", "DNS:localhost,IP:127.0.0.1")
        self.elsewhere = self.ours.sign("elsewhere", "DNS:elsewhere.example,IP:192.0.2.1")
        self.forged = self.stranger.sign("forged", "DNS:localhost,IP:127.0.0.1")
        self.expired = self.ours.sign("expired", "DNS:localhost,IP:127.0.0.1", days=-1)
        self.client = self.ours.sign("client")
        self.strange_client = self.stranger.sign("client")


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    return Papers(tmp_path_factory.mktemp("papers"))


class TlsServer(RedisServer):
    """Speaks plain text on its port for the test itself, and TLS on another."""

    def __init__(self, papers: Papers, shows: Pair, *, asks_clients: bool = False) -> None:
        self.tls_port = free_port()
        options = ["--tls-port", str(self.tls_port), "--tls-auth-clients", "yes" if asks_clients else "no"]
        options += ["--tls-cert-file", str(shows.certificate), "--tls-key-file", str(shows.key)]
        super().__init__(options=[*options, "--tls-ca-cert-file", str(papers.ours.certificate)])

    def __enter__(self) -> TlsServer:
        super().__enter__()
        return self

    def tls_url(self, trusts: Pair | None, shows: Pair | None = None, host: str = "localhost") -> str:
        parameters = [f"ssl_ca_certs={trusts.certificate}"] if trusts else []
        if shows:
            parameters += [f"ssl_certfile={shows.certificate}", f"ssl_keyfile={shows.key}"]
        return f"rediss://{host}:{self.tls_port}?{'&'.join(parameters)}".rstrip("?")


def is_let_in(recipe: Recipe, url: str) -> None:
    with Driver(recipe, url, "10/h", timeout_s=BUDGET_S) as calls:
        answers = [calls.call("key") for _ in range(11)]
    assert [answer["error"] for answer in answers] == [None] * 11
    assert [answer["allowed"] for answer in answers] == [True] * 10 + [False]
    assert {answer["source"] for answer in answers[:10]} == {"redis"}


def test_own_authority(driver: Recipe, papers: Papers) -> None:
    with TlsServer(papers, papers.server) as redis:
        is_let_in(driver, redis.tls_url(papers.ours))


def test_a_client_certificate_that_is_asked_for(driver: Recipe, papers: Papers) -> None:
    with TlsServer(papers, papers.server, asks_clients=True) as redis:
        is_let_in(driver, redis.tls_url(papers.ours, papers.client))


def test_an_address_in_the_certificate(workshop: Workshop, papers: Papers) -> None:
    with TlsServer(papers, papers.server) as redis:
        is_let_in(workshop.recipe("python", "driver"), redis.tls_url(papers.ours, host="127.0.0.1"))


def test_a_user_and_a_database(workshop: Workshop, papers: Papers) -> None:
    with TlsServer(papers, papers.server) as redis:
        redis.command("ACL", "SETUSER", "user", "on", ">p@ss", "~sg:*", "+@all")
        url = redis.tls_url(papers.ours).replace("://localhost", "://user:p%40ss@localhost")
        is_let_in(workshop.recipe("python", "driver"), url.replace("?", "/4?"))
        assert "db4:" in redis.command("INFO", "keyspace")


@pytest.fixture
def told(workshop: Workshop) -> Recipe:
    return workshop.recipe("python", "told")


@contextlib.contextmanager
def refused(told: Recipe, url: str) -> Iterator[str]:
    """Calls go on locally, again and again, and the status tells why."""
    with Running(told.line(url), told.environment()) as calls:
        answers = [calls.ask("key") for _ in range(200)]
    assert all(answer["allowed"] is True and answer["source"] == "outage" for answer in answers)
    last = answers[-1]
    assert last["state"] == "out"
    assert isinstance(last["last_error"], str)
    yield last["last_error"]


def test_a_server_with_another_name_is_refused(told: Recipe, papers: Papers) -> None:
    with TlsServer(papers, papers.elsewhere) as redis:
        for host in ("localhost", "127.0.0.1"):
            with refused(told, redis.tls_url(papers.ours, host=host)) as why:
                assert "certificate" in why and "name" in why.lower(), why
        assert redis.command("KEYS", "*") == ""


def test_a_server_of_an_unknown_authority_is_refused(told: Recipe, papers: Papers) -> None:
    with TlsServer(papers, papers.forged) as redis, refused(told, redis.tls_url(papers.ours)) as why:
        assert "UnknownIssuer" in why
    # Whoever names no authority trusts those of the system.
    with TlsServer(papers, papers.server) as redis, refused(told, redis.tls_url(None)) as why:
        assert "UnknownIssuer" in why


def test_an_expired_server_is_refused(told: Recipe, papers: Papers) -> None:
    with TlsServer(papers, papers.expired) as redis, refused(told, redis.tls_url(papers.ours)) as why:
        assert "xpired" in why


@pytest.mark.parametrize("shows", ["nothing", "a stranger's"])
def test_a_client_that_is_not_known_is_refused(told: Recipe, papers: Papers, shows: str) -> None:
    client = papers.strange_client if shows != "nothing" else None
    with TlsServer(papers, papers.server, asks_clients=True) as redis:
        with refused(told, redis.tls_url(papers.ours, client)) as why:
            assert why
        assert redis.command("KEYS", "*") == ""


def test_plain_text_and_tls_do_not_mix(told: Recipe, papers: Papers) -> None:
    with TlsServer(papers, papers.server) as redis:
        with refused(told, f"redis://localhost:{redis.tls_port}"):
            pass
        plain = redis.tls_url(papers.ours).replace(str(redis.tls_port), str(redis.port))
        with refused(told, plain):
            pass
        assert redis.command("KEYS", "*") == ""


def test_a_certificate_that_is_renewed_is_shown(told: Recipe, papers: Papers) -> None:
    """What was refused is let in when the server has put it right, by the same limiter."""
    with TlsServer(papers, papers.elsewhere) as redis:
        url = redis.tls_url(papers.ours)
        with Running(told.line(url), told.environment()) as calls:
            assert calls.ask("key")["source"] == "outage"
            redis.command("CONFIG", "SET", "tls-cert-file", str(papers.server.certificate),
                          "tls-key-file", str(papers.server.key))  # fmt: skip
            end = time.monotonic() + 20
            while (source := calls.ask("key")["source"]) != "redis" and time.monotonic() < end:
                time.sleep(0.02)
            assert source == "redis"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("redis://user:hunter2@localhost?ssl_ca_certs={client}", "need rediss://"),
        ("rediss://user:hunter2@localhost?ssl_ca_certs=/nowhere/ca.pem", "/nowhere/ca.pem"),
        ("rediss://user:hunter2@localhost?ssl_certfile={client}", "ssl_keyfile come together"),
        ("rediss://user:hunter2@localhost?ssl_keyfile={client_key}", "ssl_certfile and"),
        ("rediss://user:hunter2@localhost?ssl_ca_certs={client_key}", "holds no certificate"),
        (
            "rediss://user:hunter2@localhost?ssl_certfile={client}&ssl_keyfile={client}",
            "holds no private key",
        ),
        (
            "rediss://user:hunter2@localhost?ssl_certfile={client_key}&ssl_keyfile={client_key}",
            "holds no certificate",
        ),
        ("rediss://user:hunter2@localhost?ssl_ca_certs=/dev/zero", "more than"),
        ("rediss://user:hunter2@localhost?ssl_cert=/tmp/x", "ssl_cert"),
    ],
)
def test_parameters_that_are_wrong(workshop: Workshop, papers: Papers, url: str, says: str) -> None:
    files = {"client": str(papers.client.certificate), "client_key": str(papers.client.key)}
    url = url.format(**files)
    code = (
        "import json, sys, sluicegate\n"
        "try: sluicegate.Limiter(sys.argv[1])\n"
        "except sluicegate.ConfigError as error: print(json.dumps(str(error)))"
    )
    python = workshop.recipe("python", "told").command[0]
    line = [str(python), "-c", code, url]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout, f"{url} was taken"
    message = json.loads(done.stdout)
    assert says in message
    assert "hunter2" not in message
