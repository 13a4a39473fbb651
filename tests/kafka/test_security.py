"""SCRAM over TLS, and what is said when the broker or the client is not who it should be."""

import base64
import json
import time

import pytest

from .broker import PASSWORD, USER
from .stand import Stand, events


@pytest.fixture
def own(broker, tmp_path):
    if broker.secure is None:
        pytest.skip("TLS and SCRAM want Apache Kafka, and there is no Java for it")
    with Stand(broker.servers, tmp_path) as stand:
        stand.topics()
        stand.send(events(500))
        yield stand


def secure(broker, mechanism="SCRAM-SHA-512", password=PASSWORD, ca=None):
    return {
        "servers": [broker.secure], "tls": True, "ca": ca or broker.authority,
        "mechanism": mechanism, "username": USER, "password": password,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("mechanism", "producer"),
    [
        ("SCRAM-SHA-512", "kafka-python"),
        ("SCRAM-SHA-256", "confluent-kafka"),
        ("PLAIN", "kafka-python"),
        ("PLAIN", "confluent-kafka"),
    ],
)
def test_scram_over_tls(broker, own, mechanism, producer):
    daemon = own.start(own.settings(kafka={**secure(broker, mechanism), "producer": producer}))
    daemon.until(lambda: (c := own.checkpoint()) and c.learner().events == 500)
    assert daemon.stop() == 0
    assert len(own.read()) == 500


def token(seconds=3600):
    """Return a token as brokers take it that validate none, as those of the tests."""
    parts = {"alg": "none"}, {"sub": USER, "iat": time.time() - 5, "exp": time.time() + seconds}
    return ".".join(
        [base64.urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in parts] + [""]
    )


@pytest.mark.parametrize("producer", ["kafka-python", "confluent-kafka"])
def test_a_token_from_a_file(broker, own, producer):
    file = own.directory / "token"
    file.write_text(token() + "\n")
    kafka = {
        **secure(broker, "OAUTHBEARER"), "username": None, "password": None, "token_file": file,
        "producer": producer, "options": {"client_rack": "a", "fetch_min_bytes": 100},
    }  # fmt: skip
    daemon = own.start(own.settings(kafka=kafka))
    daemon.until(lambda: (c := own.checkpoint()) and c.learner().events == 500)
    assert daemon.stop() == 0
    assert len(own.read()) == 500


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [(None, 2, "cannot be read"), ("not a token", 6, "the broker refuses it"), (token(-60), 6, "refuses it")],
)
def test_a_token_that_is_none(broker, own, text, code, message):
    file = own.directory / "token"
    if text is not None:
        file.write_text(text)
    kafka = {**secure(broker, "OAUTHBEARER"), "username": None, "password": None, "token_file": file}
    daemon = own.start(own.settings(kafka=kafka))
    assert daemon.wait(20) == code
    assert message in daemon.text()
    assert "Traceback" not in daemon.text()


def test_a_password_from_the_environment(broker, own):
    path = own.settings(kafka={**secure(broker), "password": None})
    daemon = own.start(path, {"STREAMK_KAFKA__PASSWORD": PASSWORD})
    daemon.until(lambda: (c := own.checkpoint()) and c.learner().events == 500)
    assert daemon.stop() == 0


@pytest.mark.parametrize("producer", ["kafka-python", "confluent-kafka"])
def test_the_log_of_the_client_has_no_password(broker, own, producer):
    kafka = {**secure(broker, "PLAIN"), "producer": producer}
    daemon = own.start(own.settings(kafka=kafka, log={"client": "debug"}))
    daemon.until(lambda: (c := own.checkpoint()) and c.learner().events == 500)
    assert daemon.stop() == 0
    text = daemon.text()
    assert "'sasl_plain_password': '********'" in text
    assert "SaslAuthenticateRequest" in text
    assert "horse" not in text


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({"password": "wrong horse"}, 6, "the broker refuses it"),
        ({"mechanism": "SCRAM-SHA-256", "password": "wrong horse"}, 6, "the broker refuses it"),
        ({"mechanism": "PLAIN", "password": "wrong horse"}, 6, "the broker refuses it"),
        ({"ca": "stranger"}, 6, "is not trusted (kafka.ca): unable to get local issuer"),
        ({"ca": "nowhere"}, 2, "kafka.ca, kafka.certificate or its key cannot be read"),
    ],
)
def test_one_clear_error(broker, own, change, code, message):
    change = {**change}
    if "ca" in change:
        change["ca"] = broker.stranger if change["ca"] == "stranger" else own.directory / "nowhere.pem"
    daemon = own.start(own.settings(kafka=secure(broker, **change)))
    assert daemon.wait(20) == code
    lines = [line for line in daemon.text().splitlines() if line.strip() and " info " not in line]
    assert len(lines) == 1, lines
    assert message in lines[0]
    assert "horse" not in daemon.text()


def test_no_tls_where_there_should_be(broker, own):
    """The client talks plainly to a port that wants TLS: it ends, and does not go on for ever."""
    settings = own.settings(kafka={"servers": [broker.secure], "away_seconds": 1.0})
    daemon = own.start(settings)
    assert daemon.wait() == 5
    assert "kafka.tls" in daemon.text()
