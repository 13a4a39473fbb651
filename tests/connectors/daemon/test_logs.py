"""The log on standard error: its form, its levels, and the secrets that it does not show."""

import json
import logging
import re
import sys

import pytest

from connectors.daemon.logs import log_to_stderr
from connectors.settings.tables import LogSection

MOMENT = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"


@pytest.fixture
def logs(capsys):
    """Return a function that returns the lines of the log so far; the logging is put back at the end."""
    loggers = [logging.getLogger(name) for name in ("streamk", "connectors", "kafka")]
    before = [(logger.handlers[:], logger.propagate, logger.level) for logger in loggers]
    yield lambda: capsys.readouterr().err.splitlines()
    for logger, (handlers, propagate, level) in zip(loggers, before, strict=True):
        logger.handlers[:], logger.propagate = handlers, propagate
        logger.setLevel(level)


def test_json_lines(logs):
    log_to_stderr(LogSection(form="json"))
    logger = logging.getLogger("connectors.session")
    logger.info("checkpoint %d: %s", 3, 'two\nlines, "quoted", ö')
    logger.warning("slow", extra={"fields": {"partition": "p-0", "behind": 7}})
    logger.debug("below the level")
    try:
        raise ValueError("so\nit is")
    except ValueError:
        logger.exception("failed")
    first, second, third = map(json.loads, logs())
    assert first.keys() == {"time", "level", "message"}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", first["time"])
    assert (first["level"], first["message"]) == ("info", 'checkpoint 3: two\nlines, "quoted", ö')
    assert (second["level"], second["partition"], second["behind"]) == ("warning", "p-0", 7)
    assert third["level"] == "error"
    assert third["exception"].endswith("ValueError: so\nit is")


def test_what_learners_log_is_there(logs):
    log_to_stderr(LogSection(form="json"))
    logging.getLogger("streamk.compiling").info("compiling")
    assert json.loads(logs()[0])["message"] == "compiling"


def test_text_lines(logs):
    log_to_stderr()
    logger = logging.getLogger("connectors.session")
    logger.info("p-0: from %d", 7)
    logger.warning("slow", extra={"fields": {"behind": 7}})
    try:
        raise ValueError("so it is")
    except ValueError:
        logger.exception("failed")
    first, second, third, *rest = logs()
    assert re.fullmatch(f"{MOMENT} info    p-0: from 7", first)
    assert re.fullmatch(f"{MOMENT} warning slow behind=7", second)
    assert re.fullmatch(f"{MOMENT} error   failed", third)
    assert rest[-1] == "ValueError: so it is"


def test_the_client_is_silent_by_default(logs):
    log_to_stderr()
    log_to_stderr(LogSection(form="json"))  # once, not twice
    logging.getLogger("connectors.contract.records").info("read")
    logging.getLogger("kafka.client").critical("retrying")
    logging.getLogger("kafka.librdkafka").critical("retrying")
    (line,) = logs()
    assert json.loads(line)["message"] == "read"
    assert logging.getLogger("connectors").handlers[0].stream is sys.stderr


LEVELS = ["debug", "info", "warning", "error"]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("client", ["off", *LEVELS])
def test_levels_of_the_daemon_and_of_the_client_are_separate(logs, level, client):
    log_to_stderr(LogSection(level=level, client=client))
    for name in ("connectors.session", "kafka.conn", "kafka.librdkafka"):
        for at in LEVELS:
            getattr(logging.getLogger(name), at)("%s of %s", at, name)
    expected = [f"{at} of connectors.session" for at in LEVELS[LEVELS.index(level) :]]
    for name in ("kafka.conn", "kafka.librdkafka") if client != "off" else ():
        expected += [f"{at} of {name}" for at in LEVELS[LEVELS.index(client) :]]
    assert [re.sub(rf"^{MOMENT} \w+ +", "", line) for line in logs()] == expected


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("secret", ["hunter2", "it's", 'it\'s \\ "quoted"', "pässwort\n", "a%sb"])
def test_secrets_are_in_no_line(logs, form, secret):
    """The client writes its configuration and its requests at the level debug."""
    log_to_stderr(LogSection(client="debug", form=form), ["", secret, "other"])
    logger = logging.getLogger("kafka.client")
    logger.debug("Starting with configuration: %s", {"sasl_plain_password": secret, "port": 1})
    logger.debug("Request: SaslAuthenticate(auth_bytes=%r)", b"\0reader\0" + secret.encode())
    logger.debug("Request: SaslAuthenticate(auth_bytes=%r)", b"\0o'reader\"\0" + secret.encode())
    logger.info("password %s, and other", secret)
    try:
        raise ValueError(secret)
    except ValueError:
        logger.exception("failed")
    lines = logs()
    text = "\n".join(lines)
    if form == "json":
        found = [json.loads(line) for line in lines]
        text = "\n".join(f"{line['message']} {line.get('exception', '')}" for line in found)
    for shown in (secret, repr(secret)[1:-1], repr(secret.encode())[2:-1], "it\\'s", "quoted", "other"):
        assert shown not in text
    assert text.count("********") == 6
    assert "'port': 1" in text


def test_a_secret_that_begins_with_another_one_is_masked_whole(logs):
    log_to_stderr(LogSection(), ["hunter", "hunter2"])
    logging.getLogger("connectors").info("hunter2")
    assert logs()[0].endswith("********")
