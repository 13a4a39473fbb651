"""A small registry of schemas, in the process of a test."""

import contextlib
import http.server
import json
import struct
import threading
from io import BytesIO

from fastavro import parse_schema, schemaless_writer


class Registry:
    """Answers as a registry with the interface of Confluent's."""

    def __init__(self, credentials=None):
        self.schemas, self.subjects, self.requests, self.status = {}, {}, [], None
        self.credentials = credentials

    def add(self, number, schema, kind="AVRO", references=(), subject=None):
        entry = {"schema": json.dumps(schema)}
        entry |= {} if kind == "AVRO" else {"schemaType": kind}
        entry |= {"references": list(references)} if references else {}
        self.schemas[number] = entry
        if subject is not None:
            self.subjects[subject] = {"subject": subject, "version": 1, "id": number, **entry}

    def answer(self, path, headers):
        self.requests.append(path)
        if self.status is not None:
            return self.status, {"message": "not now"}
        if self.credentials is not None and headers.get("Authorization") != self.credentials:
            return 401, {"error_code": 401}
        parts = path.strip("/").split("/")
        if parts == ["subjects"]:
            return 200, list(self.subjects)
        if parts[:2] == ["schemas", "ids"] and int(parts[2]) in self.schemas:
            return 200, self.schemas[int(parts[2])]
        if parts[0] == "subjects" and parts[1] in self.subjects and parts[2:] == ["versions", "1"]:
            return 200, self.subjects[parts[1]]
        return 404, {"error_code": 40403}

    @contextlib.contextmanager
    def served(self):
        registry = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                status, body = registry.answer(self.path, self.headers)
                self.send_response(status)
                self.end_headers()
                self.wfile.write(json.dumps(body).encode())

            def log_message(self, *arguments):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


def avro(number, schema, value, named=None):
    """Return a record of Avro behind the number of its schema."""
    body = BytesIO()
    schemaless_writer(body, parse_schema(schema, {} if named is None else named), value)
    return struct.pack(">bI", 0, number) + body.getvalue()


def json_record(number, value):
    """Return a record of JSON Schema behind the number of its schema."""
    return struct.pack(">bI", 0, number) + json.dumps(value).encode()
