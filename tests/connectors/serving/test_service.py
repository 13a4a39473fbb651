"""The service over HTTP: what requests get, what they teach, and that nothing of it is lost or done twice."""

import asyncio
import contextlib
import http.client
import json
import random
import signal
import ssl
import threading
import time
import urllib.error
import urllib.request

import pytest
import trustme
from hypothesis import given, settings
from hypothesis import strategies as st

import streamk
from connectors.contract.errors import USAGE, Failure
from connectors.daemon.telemetry import Telemetry
from connectors.events.model_files import load
from connectors.publish.following import version_of
from connectors.serving.app import application, description
from connectors.serving.request_log import EVENTS, Request, RequestLog
from connectors.serving.service import learning, requested
from connectors.settings.file import load_service
from connectors.settings.tables import Settings
from streamk.learners.loading import MODEL
from tests.kafka.stand import LIMIT, events, newest
from tests.processes import Command, run

TOKEN = "a token"


def inputs(x):
    return {name: value for name, value in x.items() if name not in ("id", "y")}


def write_settings(directory, learner="kaczmarz", more=""):
    path = directory / "serve.toml"
    parameters = "[learner.parameters]\nfeatures = 64\n" if learner == "kaczmarz" else ""
    path.write_text(
        f'[events]\ntarget = "y"\nignore = ["id"]\n[learner]\nname = "{learner}"\n{parameters}'
        f'[checkpoints]\ndirectory = "{directory / "state"}"\n{more}'
    )
    return path


class Server:
    """`streamk serve` in a process."""

    def __init__(self, directory, *arguments):
        self.log = directory / "serve.log"
        with self.log.open("ab") as log:
            self._since = log.tell()
            self.process = Command("serve", *arguments, "--port", "0", stdout=log, stderr=log)

    def __enter__(self):
        until(lambda: b"serving on" in self._text() or self.process.poll() is not None)
        assert self.process.poll() is None, self._text()
        line = next(line for line in self._text().splitlines() if b"serving on" in line)
        self.address = line.rpartition(b" ")[2].decode()
        return self

    def _text(self):
        return self.log.read_bytes()[self._since :]

    def __exit__(self, *details):
        self.kill()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(LIMIT)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(LIMIT)

    def ask(self, path, body=None, token=None, context=None):
        """Return the status and the answer."""
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data)
        if token is not None:
            request.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request, timeout=60, context=context) as found:
                return found.status, read(found.read())
        except urllib.error.HTTPError as error:
            return error.code, read(error.read())


def read(body):
    try:
        return json.loads(body)
    except ValueError:
        return body.decode()


def until(done):
    deadline = time.monotonic() + LIMIT
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_model_file_predicts(tmp_path):
    learner, sent = streamk.KernelClassifier(seed=0), events(400)
    learner.learn_many([inputs(x) for x in sent], [x["y"] for x in sent])
    path = tmp_path / "clicks.streamk"
    learner.save(path)
    model = load(path).learner.frozen()
    rows = [inputs(x) for x in events(5, 2)]
    with Server(tmp_path, path) as server:
        status, found = server.ask("/v1/predict", {"events": rows, "ids": list("abcde")})
        assert status == 200
        version = version_of(path.read_bytes(), 400)
        assert (found["model"], found["version"]) == ("clicks", version)
        assert [each["id"] for each in found["predictions"]] == list("abcde")
        wanted = [{str(k).lower(): round(v, 6) for k, v in model.predict_proba_one(x).items()} for x in rows]
        assert [each["probabilities"] for each in found["predictions"]] == wanted
        assert server.ask("/v1/learn", {"events": rows})[0] == 404
        status, about = server.ask("/v1/model")
        assert (about["version"], about["learns"], about["events"]) == (version, False, 400)
        assert about["relevance"] == learner.summary().by_field()
        learner.learn_one(rows[0], True)
        learner.save(path)
        until(lambda: server.ask("/v1/model")[1]["version"] != version)
        assert server.ask("/v1/predict", {"events": rows})[1]["version"].startswith("401-")
        assert f'version="{version_of(path.read_bytes(), 401)}"' in server.ask("/metrics")[1]
        assert server.ask("/ready") == (200, "ok\n")
        assert server.ask("/openapi.json")[1]["paths"].keys() == {
            "/v1/predict",
            "/v1/model",
            "/metrics",
            "/ready",
            "/report",
        }
        assert "curl" in server.ask("/")[1]
        assert server.stop() == 0


def test_events_and_late_labels_are_learned_once(tmp_path):
    sent = events(60)
    path = write_settings(tmp_path)
    wanted = streamk.KaczmarzClassifier(features=64, seed=0)
    with Server(tmp_path, path) as server:
        ids = [f"e{x['id']}" for x in sent]
        for _ in range(2):
            status, found = server.ask("/v1/learn", {"events": sent[:30], "ids": ids[:30]})
            assert status == 200
        assert {each["fate"] for each in found["events"]} == {"duplicate"}
        for x in sent[:30]:
            wanted.learn_one(inputs(x), x["y"])
        asked = {"events": [inputs(x) for x in sent[30:]], "ids": ids[30:]}
        first, again = (server.ask("/v1/predict", asked)[1]["predictions"] for _ in range(2))
        assert {each["fate"] for each in first} == {"waiting"}
        assert {each["fate"] for each in again} == {"duplicate"}
        for x, key, each in zip(sent[30:], ids[30:], first, strict=True):
            chances = wanted.predict_proba_one(inputs(x))
            assert each["probabilities"] == {str(k).lower(): round(p, 6) for k, p in chances.items()}
            wanted.ask_one(key, inputs(x))
        order = random.Random(1).sample(range(30, 60), 30)
        labels = {"ids": [ids[k] for k in order], "targets": [sent[k]["y"] for k in order]}
        fates = [[each["fate"] for each in server.ask("/v1/labels", labels)[1]["labels"]] for _ in range(2)]
        assert fates == [["learned"] * 30, ["duplicate"] * 30]
        for k in order:
            wanted.tell_one(ids[k], sent[k]["y"])
        other = {"ids": ["e31", "early"], "targets": [not sent[31]["y"], True]}
        assert [each["fate"] for each in server.ask("/v1/labels", other)[1]["labels"]] == [
            "contradicting",
            "early",
        ]
        found = server.ask("/v1/predict", {"events": [inputs(sent[0])], "ids": ["early"]})[1]["predictions"][
            0
        ]
        assert found["fate"] == "learned"
        wanted.learn_one(inputs(sent[0]), True)
        assert server.ask("/v1/model")[1]["events"] == 61
        assert 'streamk_labels_total{fate="learned"} 31.0' in server.ask("/metrics")[1]
        assert server.stop() == 0
    assert newest(tmp_path / "state").learner().to_bytes() == wanted.to_bytes()


KILLS = [5, pytest.param(20, marks=pytest.mark.long)]


@pytest.mark.parametrize("kills", KILLS)
@pytest.mark.parametrize("learner", ["kaczmarz", "kernel"])
def test_what_is_confirmed_survives_kills_once(tmp_path, kills, learner):
    """A client sends again what was not confirmed; the model is that of a service that was not killed."""
    rng, sent, waiting, steps = random.Random(kills), events(60 * kills), [], []
    for x in sent:
        key = f"e{x['id']}"
        if rng.random() < 0.3:
            steps.append(("/v1/learn", {"events": [x], "ids": [key]}))
            continue
        steps.append(("/v1/predict", {"events": [inputs(x)], "ids": [key]}))
        waiting.append((key, x["y"]))
        while waiting and rng.random() < 0.5:
            key, label = waiting.pop(rng.randrange(len(waiting)))
            steps.append(("/v1/labels", {"ids": [key], "targets": [label]}))
    more = "events = 20\n"

    def serve(directory, killed):
        directory.mkdir()
        path = write_settings(directory, learner, more)
        server = Server(directory, path)
        server.__enter__()
        for number, (place, body) in enumerate(steps):
            if number in killed:
                threading.Timer(rng.uniform(0.0, 0.006), server.kill).start()  # with a request on its way
            while True:
                try:
                    status, _ = server.ask(place, body)
                    assert status == 200
                    break
                except (OSError, http.client.HTTPException):
                    server.kill()
                    server = Server(directory, path)
                    server.__enter__()
            with contextlib.suppress(OSError, http.client.HTTPException):  # killed meanwhile
                server.ask("/v1/predict", {"events": [inputs(sent[0])]})  # leaves no trace
        assert server.stop() == 0
        return newest(directory / "state")

    killed = serve(tmp_path / "killed", set(rng.sample(range(len(steps)), kills)))
    whole = serve(tmp_path / "whole", set())
    assert killed.learner().events == whole.learner().events == len(sent) - len(waiting)
    assert killed.parts[MODEL] == whole.parts[MODEL]


def test_tokens_sizes_and_forms(tmp_path):
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    path = write_settings(tmp_path)
    with Server(tmp_path, path, "--token-file", tmp_path / "token", "--most-bytes", "2000") as server:
        body = {"events": [{"a": 1.0}]}
        for token in (None, "another", ""):
            status, found = server.ask("/v1/predict", body, token)
            assert (status, found["error"]) == (401, "send the header Authorization: Bearer TOKEN")
        assert server.ask("/v1/model")[0] == 401
        assert server.ask("/metrics")[0] == server.ask("/ready")[0] == 200
        assert server.ask("/v1/predict", body, TOKEN)[0] == 200
        assert server.ask("/v1/predict", {"events": [{"a": "x" * 3000}]}, TOKEN)[0] == 413
        for wrong, status, words in [
            (b"{", 400, "Input data was truncated"),
            (b"\xff", 400, "invalid"),
            ({"events": 3}, 400, "Expected `array`, got `int` - at `$.events`"),
            ({"events": [], "more": 1}, 400, "unknown field `more`"),
            ({"a": 1.0}, 400, 'unknown field `a`; a body is like {"events":[{"amount":12.5,'),
            ({"events": [3]}, 422, "events[0]: "),
            ({"events": [{"a": 1.0}, {}]}, 422, "events[1]: it has no input"),
            ({"events": [{"a": 1.0}], "ids": []}, 422, "there are 0 ids and 1 events"),
            ({"events": [{"a": 1.0}], "ids": [""]}, 422, "ids[0]: an id has 1 to 512 characters"),
        ]:
            found = server.ask("/v1/predict", wrong, TOKEN)
            assert found[0] == status, found
            assert words in found[1]["error"]
        found = server.ask("/v1/learn", {"events": [{"a": 1.0, "y": "u"}, {"a": 2.0}]}, TOKEN)
        assert found == (422, {"error": "events[1]: it has no target, the field 'y'"})
        found = server.ask("/v1/predict", {"events": [{"a": 1.0, "y": "u"}], "ids": ["i"]}, TOKEN)
        assert found[0] == 422
        assert found[1]["error"] == "events[0]: it has its target; send it to /v1/learn, or leave it out"
        assert server.ask("/v1/model", None, TOKEN)[1]["events"] == 0
        assert server.ask("/nowhere", None, TOKEN)[0] == 404
        assert server.stop() == 0


def test_tls(tmp_path):
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_pem.write_to_path(tmp_path / "key.pem")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    context = ssl.create_default_context()
    authority.configure_trust(context)
    options = "--certificate", tmp_path / "cert.pem", "--certificate-key", tmp_path / "key.pem"
    with Server(tmp_path, write_settings(tmp_path), *options) as server:
        assert server.address.startswith("https://")
        assert server.ask("/ready", context=context) == (200, "ok\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "name a model file or settings, or --follow TOPIC"),
        (["nowhere.streamk"], "nowhere.streamk: there is no such file"),
        (["serve.toml", "--token-file", "nowhere"], "--token-file nowhere: it cannot be read"),
        (["serve.toml", "--token-file", "empty"], "--token-file empty: it is empty"),
        (["serve.toml", "--host", "300.1.1.1"], "--port: 300.1.1.1:8000 cannot be used"),
        (["empty"], "learner.follow: the model empty in"),
        (["serve.toml", "--certificate-key", "empty"], "--certificate-key needs --certificate"),
        (["serve.toml", "--certificate", "empty"], "--certificate empty: it cannot be used"),
    ],
)
def test_wrong_arguments(tmp_path, arguments, words):
    write_settings(tmp_path)
    (tmp_path / "empty").touch()
    done = run("serve", *arguments, cwd=tmp_path)
    assert done.returncode == USAGE
    assert words in " ".join(done.stderr.split())


# ---- within one process


class Direct:
    """The application, called without a server."""

    def __init__(self, directory, learner="kaczmarz"):
        self.opened = learning(load_service(write_settings(directory, learner)), Telemetry())
        self.service = self.opened.__enter__()
        self.app = application(self.service)
        self.loop = asyncio.new_event_loop()

    def close(self):
        self.loop.close()
        self.opened.__exit__(None, None, None)

    def model(self):
        return self.service.using.learner.to_bytes()

    def ask(self, path, body, method="POST"):
        scope = {
            "type": "http", "method": method, "path": path, "raw_path": path.encode(), "headers": [],
            "query_string": b"", "http_version": "1.1", "scheme": "http", "server": ("x", 1),
            "client": ("x", 1),
        }  # fmt: skip
        sent = []

        async def receive():
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message):
            sent.append(message)

        self.loop.run_until_complete(self.app(scope, receive, send))
        return sent[0]["status"], b"".join(each.get("body", b"") for each in sent[1:])


VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(["events", "ids", "targets", "y", "a", "x"])
BODIES = st.one_of(
    st.binary(max_size=60),
    VALUES.map(lambda value: json.dumps(value).encode()),
    st.dictionaries(KEYS, VALUES | st.lists(st.dictionaries(KEYS, VALUES)), max_size=4).map(
        lambda value: json.dumps(value).encode()
    ),
)
PATHS = st.sampled_from(["/v1/predict", "/v1/learn", "/v1/labels", "/v1/model", "/", "/v1/other"])


def is_refused(answer):
    return not (b'"learned"' in answer or b'"waiting"' in answer or b'"early"' in answer)


@pytest.mark.parametrize("count", [400, pytest.param(10_000, marks=pytest.mark.long)])
def test_no_request_is_answered_by_a_fault(tmp_path, count):
    direct = Direct(tmp_path)
    rows = [{**inputs(x), "y": x["y"]} for x in events(50)]
    direct.ask("/v1/learn", json.dumps({"events": rows}).encode())

    @settings(max_examples=count, deadline=None)
    @given(PATHS, BODIES, st.sampled_from(["POST", "GET", "PUT"]))
    def check(path, body, method):
        before = direct.model()
        status, answer = direct.ask(path, body, method)
        assert status < 500, (path, body, answer)
        if is_refused(answer):
            assert direct.model() == before

    try:
        check()
    finally:
        direct.close()


@pytest.mark.parametrize("learner", ["kaczmarz", "kernel"])
def test_a_client_that_hangs_up_changes_nothing(tmp_path, learner):
    """What is in the log is learned in its order, also if nobody waits for the answer."""
    direct = Direct(tmp_path, learner)
    rows = [{**inputs(x), "y": x["y"]} for x in events(200)]

    async def hang_up():
        raws = [json.dumps(row).encode() for row in rows]
        tasks = [
            asyncio.ensure_future(direct.service.learn(None, raws[k : k + 20])) for k in range(0, 200, 20)
        ]
        await asyncio.sleep(0.01)
        for task in tasks[::2]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        while direct.service.using.learner.events < 200:
            await asyncio.sleep(0.01)

    direct.loop.run_until_complete(asyncio.wait_for(hang_up(), LIMIT))
    wanted = direct.service.using.learner.__class__(**direct.service.using.learner._get_params())
    wanted.learn_many([inputs(x) for x in rows], [x["y"] for x in rows])
    assert direct.model() == wanted.to_bytes()
    direct.close()


def test_a_full_disk_is_reported_and_nothing_is_learned(tmp_path, monkeypatch):
    direct, body = Direct(tmp_path), json.dumps({"events": [{"a": 1.0, "y": "u"}]}).encode()
    with monkeypatch.context() as patch:

        def fail(*arguments):
            raise Failure(4, "requests.sqlite: database or disk is full")

        patch.setattr(direct.service._log, "append", fail)
        status, found = direct.ask("/v1/learn", body)
        assert (status, json.loads(found)["error"]) == (
            503, "the log of requests cannot be written; nothing was learned"
        )  # fmt: skip
        assert direct.service.using.learner.events == 0
    with monkeypatch.context() as patch:
        patch.setattr(direct.service, "save", fail)
        patch.setattr(direct.service, "_saved_at", -1e9)
        assert direct.ask("/v1/learn", body)[0] == 200
    assert direct.service.using.learner.events == 1
    direct.close()
    assert newest(tmp_path / "state").learner().events == 1


def test_labels_may_come_too_late(tmp_path):
    path = write_settings(tmp_path, more="[labels]\nwait = 0.05\n")
    with learning(load_service(path), Telemetry()) as service:

        async def late():
            await service.ask(["a"], [b'{"f": 1.0}'])
            await asyncio.sleep(0.2)
            await service.ask(["b"], [b'{"f": 1.0}'])
            return await service.label(["a", "b"], [True, True])

        fates = [each["fate"] for each in asyncio.run(late())]
    assert fates == ["early", "learned"]  # its event has expired, and another one may come


def test_a_checkpoint_of_a_service_is_a_model(tmp_path):
    direct = Direct(tmp_path)
    rows = [{**inputs(x), "y": x["y"]} for x in events(50)]
    direct.ask("/v1/learn", json.dumps({"events": rows}).encode())
    direct.close()
    (checkpoint, *_) = sorted((tmp_path / "state").glob("*.checkpoint"))[::-1]
    with Server(tmp_path, checkpoint) as server:
        assert server.ask("/v1/model")[1]["events"] == 50
        assert server.ask("/v1/predict", {"events": [inputs(rows[0])]})[0] == 200


def test_the_checkpoint_before_a_damaged_one_needs_what_the_log_holds(tmp_path):
    path = write_settings(tmp_path)
    rows = [json.dumps({**inputs(x), "y": x["y"]}).encode() for x in events(120)]
    for k in range(6):
        with learning(load_service(path), Telemetry()) as service:
            for start in range(20 * k, 20 * k + 20, 5):
                asyncio.run(service.learn(None, rows[start : start + 5]))
                if k < 5 or start == 100:  # the last process writes two alone
                    service.save()
            whole = service.using.learner.to_bytes()
    for name in sorted((tmp_path / "state").glob("*.checkpoint"))[-2:]:
        name.write_bytes(name.read_bytes()[:-9])
    with learning(load_service(path), Telemetry()) as service:
        assert service.using.learner.to_bytes() == whole


def test_the_description_has_every_path(tmp_path):
    direct = Direct(tmp_path)
    paths = description(direct.service)["paths"]
    for path, methods in paths.items():
        if "post" in methods:
            content = methods["post"]["requestBody"]["content"]["application/json"]
            status, answer = direct.ask(path, json.dumps(content["example"]).encode())
            assert status in (200, 422), answer  # its target is another one here
        else:
            assert direct.ask(path, b"", "GET")[0] == 200
    direct.close()


def test_the_log_of_requests(tmp_path):
    log = RequestLog(tmp_path)
    first = log.append(EVENTS, [Request("a", b"1"), Request(None, b"2"), Request("a", b"3")], 5000)
    assert [raw and (raw.value, raw.key, raw.timestamp) for raw in first] == [
        (b"1", b"a", 5000),
        (b"2", None, 5000),
        None,
    ]
    second = log.append(EVENTS, [Request(None, b"2")], 4000)
    assert second[0].timestamp == 5000  # a clock that goes back does not
    assert [raw.offset for _, raw in log.after(0)] == [first[0].offset, first[1].offset, second[0].offset]
    log.prune(second[0].offset)
    assert log.append(EVENTS, [Request("a", b"1")], 6000) == [None]
    log.close()
    log = RequestLog(tmp_path)
    assert [raw.value for _, raw in log.after(second[0].offset)] == [b"2"]
    log.close()
    (tmp_path / "requests.sqlite").write_bytes(b"damaged" * 1000)
    with pytest.raises(Failure, match=r"requests\.sqlite: file is not a database"):
        RequestLog(tmp_path)


def test_requests_are_no_records_of_a_topic():
    chosen = Settings.model_validate(
        {
            "source": {"kind": "topic", "topic": "t", "group": "g"},
            "events": {"target": "y", "format": "avro", "record": {"shop": "key"}, "repeats": 9},
            "registry": {"url": "http://localhost:8081"},
        }
    )
    served = requested(chosen)
    assert (served.events.record, served.events.repeats, served.registry) == ({}, 0, None)
    assert served.decoder()(b'{"shop": "north", "y": 1}').fields == {"shop": "north"}
