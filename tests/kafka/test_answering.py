"""Which servers a client is given: those that answer, since it draws one of them and waits for it."""

import contextlib
import socket
import threading

import pytest

from connectors.contract.errors import BrokerUnavailable, Failure
from connectors.kafka import client
from connectors.kafka.client import answering
from connectors.kafka.group import Group

from .broker import free_port


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(client, "_ANSWER", 0.5)


@contextlib.contextmanager
def server(answer):
    """Give the address of a server that answers each connection with these bytes, with None not at all."""
    with socket.create_server(("127.0.0.1", 0)) as listening, contextlib.ExitStack() as kept:

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    connection = kept.enter_context(listening.accept()[0])
                    if answer is not None:
                        connection.recv(1 << 10)
                        connection.sendall(answer)
                        connection.close()

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def test_a_server_that_hangs_or_is_gone_is_not_given():
    gone = f"127.0.0.1:{free_port()}"
    with server(b"\0\0\0\6") as good, server(None) as hangs, server(b"") as closes:
        assert answering([gone, hangs, good, closes], None) == [good]
        assert answering([gone, hangs, closes], None) == [gone, hangs, closes], "the client's error says more"
    with pytest.raises(BrokerUnavailable, match=f"no broker answers .{gone}: "):
        answering([gone], None)


@pytest.mark.parametrize("wrong", ["localhost", ":9092", "a:b", "a:99999999", "a:²"])
def test_a_server_is_a_host_and_a_port(wrong):
    with pytest.raises(Failure, match="is not host:port"):
        answering([f"127.0.0.1:{free_port()}", wrong], None)


def test_a_member_whose_brokers_are_gone_ends_with_a_warning(caplog):
    Group({"bootstrap_servers": [f"127.0.0.1:{free_port()}"]}, "group", "member").leave()
    assert "the group was not left (no broker answers" in caplog.text


def test_brokers_answer(servers):
    hosts = servers.split(",")
    assert answering(hosts, None) == hosts
