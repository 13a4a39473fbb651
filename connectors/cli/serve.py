"""``streamk serve``: predictions over HTTP, and learning from requests."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from connectors.cli.exits import connected, exits, usage
from connectors.contract.errors import USAGE, Failure
from connectors.daemon.logs import log_to_stderr
from connectors.daemon.signals import signals
from connectors.daemon.telemetry import Telemetry
from connectors.events.decoding import EventFormat
from connectors.publish.following import Follower
from connectors.serving.service import Service, learning
from connectors.settings.file import load_kafka, load_service
from connectors.settings.tables import LogSection, Settings

log = logging.getLogger(__name__)
_MOST_AT_ONCE = 1000  # requests
_SWITCH = 0.0005  # seconds after which the thread that writes the log lets other requests continue


def serve_command(
    place: Annotated[
        Path | None, typer.Argument(help="A model file, which predicts; or settings (.toml), which learn.")
    ] = None,
    follow: Annotated[
        str | None,
        typer.Option("--follow", help="A topic whose newest published model predicts, or a path with a /."),
    ] = None,
    model: Annotated[str | None, typer.Option("--model", help="Name of the model in the topic.")] = None,
    servers: Annotated[str | None, typer.Option("--servers", help="Brokers of the topic, host:port.")] = None,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65_535, help="Port; 0 takes a free one.")] = 8000,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", help="File with the token that requests must have.")
    ] = None,
    certificate: Annotated[Path | None, typer.Option("--certificate", help="Of TLS (PEM).")] = None,
    certificate_key: Annotated[Path | None, typer.Option("--certificate-key", help="Its key (PEM).")] = None,
    most_bytes: Annotated[int, typer.Option("--most-bytes", min=1, help="Bytes of a request, at most.")] = 1
    << 20,
) -> None:
    """Answer predictions over HTTP by a model file, a published model, or a learner taught by requests.

    With settings, /v1/learn and /v1/labels teach the learner, and what they confirm is learned once,
    whatever happens to the process. The page / lists the requests.
    """
    with exits(), connected():
        log_to_stderr(LogSection(), [])
        try:
            import uvicorn

            from connectors.serving.app import application
        except ImportError as error:
            raise Failure(USAGE, f"pip install 'streamk[serve]' brings what serve needs ({error})") from None
        with usage():
            token = None if token_file is None else _token(token_file)
            _check_certificate(certificate, certificate_key)
            settings = _settings(place, follow, model, servers)
        with _listening(host, port) as listening, _service(settings, place) as service:
            app = application(service, token, most_bytes)
            config = uvicorn.Config(
                app, log_level="warning", access_log=False, server_header=False, lifespan="off",
                limit_concurrency=_MOST_AT_ONCE, timeout_keep_alive=30,
                ssl_certfile=certificate, ssl_keyfile=certificate_key,
            )  # fmt: skip
            server = uvicorn.Server(config)
            scheme = "http" if certificate is None else "https"
            log.info("serving on %s://%s:%d", scheme, *listening.getsockname()[:2])
            sys.setswitchinterval(_SWITCH)
            with signals(threading.Event()):  # the server ends by them, and sends them on
                asyncio.run(server.serve(sockets=[listening]))
        log.info("stopped")


def _token(path: Path) -> str:
    try:
        token = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"--token-file {path}: it cannot be read: {error}") from None
    if not token:
        raise ValueError(f"--token-file {path}: it is empty; write a token into it")
    return token


def _check_certificate(certificate: Path | None, key: Path | None) -> None:
    """Raise a ValueError unless TLS can use them."""
    if certificate is None and key is not None:
        raise ValueError("--certificate-key needs --certificate")
    if certificate is not None:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
        except OSError as error:
            raise ValueError(f"--certificate {certificate}: it cannot be used: {error}") from None


def _settings(place: Path | None, follow: str | None, model: str | None, servers: str | None) -> Settings:
    """Return the settings of a file, or those by which a published model is followed."""
    if (place is None) == (follow is None):
        raise ValueError("name a model file or settings, or --follow TOPIC")
    if place is not None and place.suffix == ".toml":
        return load_service(place)
    if place is not None and not place.is_file():
        raise ValueError(f"{place}: there is no such file")
    followed = follow if place is None else str(place.absolute())
    learner = {"follow": followed, **({} if model is None else {"model": model})}
    source = {"kind": "file", "path": "requests"}
    values = {"source": source, "events": {"target": "target"}, "learner": learner}
    settings = Settings.model_validate(values)
    return settings.model_copy(update={"kafka": load_kafka(None, servers)})


def _listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # asyncio sends answers at once only where the socket names its protocol
        bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(_MOST_AT_ONCE)
        return bound
    except (OSError, UnicodeError) as error:
        raise Failure(USAGE, f"--port: {host}:{port} cannot be used: {error}") from None


@contextmanager
def _service(settings: Settings, place: Path | None) -> Iterator[Service]:
    classes = settings.learner.task == "classification"
    telemetry = Telemetry(settings.telemetry.window, settings.telemetry.stall_seconds, classes)
    if settings.learner.follow is None:
        with learning(settings, telemetry) as service:
            yield service
        return
    by_settings = place is not None and place.suffix == ".toml"
    follower = Follower(settings, telemetry, any_task=not by_settings)
    follower.look()
    if follower.current is None:
        log.warning("no model is published in %s yet; requests get an error until then", follower.follow)
    telemetry.ready = True
    with follower.running(first=True):
        yield Service(follower, telemetry, settings.format if by_settings else EventFormat())
