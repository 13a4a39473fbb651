"""How long a prediction over HTTP takes while the service learns, in one run on one machine.

``python benchmarks/serving.py`` starts ``streamk serve`` with the default learner, sends 500 requests a
second to ``/v1/predict``, each at its time whether or not those before are answered, and between them events
to ``/v1/learn``, half as many a second as the service alone takes. The clients share the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FIELDS, TOGETHER = 8, 20  # of an event; events of a request that teaches


def event(rng: random.Random) -> dict[str, float | str | bool]:
    x: dict[str, float | str | bool] = {f"f{k}": round(rng.gauss(0, 1), 6) for k in range(FIELDS - 1)}
    x["place"] = f"place {rng.randrange(30)}"
    return x


def labelled(rng: random.Random) -> dict[str, float | str | bool]:
    x = event(rng)
    return {**x, "y": float(x["f0"]) * float(x["f1"]) > 0}


class Connection:
    """One connection; requests one after the other."""

    async def open(self, port: int) -> Connection:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", port)
        return self

    async def post(self, path: str, body: bytes) -> bytes:
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        self.writer.write(head.encode() + body)
        header = await self.reader.readuntil(b"\r\n\r\n")
        assert header.startswith(b"HTTP/1.1 200"), header
        length = next(line for line in header.lower().split(b"\r\n") if line.startswith(b"content-length"))
        return await self.reader.readexactly(int(length.split(b":")[1]))


async def predictions(port: int, rate: float, seconds: float, connections: int) -> list[float]:
    """Return how long each prediction took, in ms, from the time at which it was to be sent."""
    rng, took, free = random.Random(2), [], asyncio.Queue()
    for _ in range(connections):
        free.put_nowait(await Connection().open(port))

    async def ask(due: float, body: bytes) -> None:
        connection = await free.get()
        await connection.post("/v1/predict", body)
        took.append(1000 * (time.perf_counter() - due))
        free.put_nowait(connection)

    tasks, began = [], time.perf_counter()
    for k in range(int(rate * seconds)):
        due = began + k / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        tasks.append(asyncio.create_task(ask(due, json.dumps({"events": [event(rng)]}).encode())))
    await asyncio.gather(*tasks)
    return took


async def teaching(port: int, rate: float, ended: asyncio.Event) -> float:
    """Send events until that is over; return how many a second were learned."""
    rng, connection, count, began = random.Random(3), await Connection().open(port), 0, time.perf_counter()
    while not ended.is_set():
        body = json.dumps({"events": [labelled(rng) for _ in range(TOGETHER)]}).encode()
        await asyncio.sleep(max(0.0, began + count / rate - time.perf_counter()))
        await connection.post("/v1/learn", body)
        count += TOGETHER
    return count / (time.perf_counter() - began)


async def measure(port: int, rate: float, seconds: float, learn: float) -> tuple[list[float], float]:
    ended = asyncio.Event()
    taught = asyncio.create_task(teaching(port, learn, ended)) if learn else None
    await asyncio.sleep(3.0)
    took = await predictions(port, rate, seconds, 32)
    ended.set()
    return took, 0.0 if taught is None else await taught


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=float, default=500.0)
    parser.add_argument("--seconds", type=float, default=20.0)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "serve.toml"
        settings.write_text(f'[events]\ntarget = "y"\n[checkpoints]\ndirectory = "{folder}/state"\n')
        command = [sys.executable, "-c", "from connectors.cli import main; main()", "serve", str(settings)]
        with subprocess.Popen([*command, "--port", "0"], stderr=subprocess.PIPE, text=True) as server:
            try:
                assert server.stderr is not None
                line = ""
                while "serving on" not in line:
                    line = server.stderr.readline()
                port = int(line.rpartition(":")[2])
                asyncio.run(warm(port, 4000))
                speed = asyncio.run(warm(port, 10_000))
                print(f"the service alone learns {speed:,.0f} events a second, {TOGETHER} a request")
                for learn in (0.0, speed / 2):
                    took, learned = asyncio.run(measure(port, chosen.rate, chosen.seconds, learn))
                    took.sort()
                    p50, p99, most = (took[int(q * (len(took) - 1))] for q in (0.5, 0.99, 1.0))
                    print(
                        f"{chosen.rate:.0f} predictions a second, {learned:,.0f} events learned: "
                        f"p50 {p50:.1f} ms, p99 {p99:.1f} ms, most {most:.0f} ms"
                    )
            finally:
                server.terminate()


async def warm(port: int, count: int) -> float:
    """Teach so many events as fast as possible; return how many a second."""
    rng, connection = random.Random(4), await Connection().open(port)
    bodies = [
        json.dumps({"events": [labelled(rng) for _ in range(TOGETHER)]}) for _ in range(count // TOGETHER)
    ]
    began = time.perf_counter()
    for body in bodies:
        await connection.post("/v1/learn", body.encode())
    took = time.perf_counter() - began
    await connection.post("/v1/predict", json.dumps({"events": [event(rng)]}).encode())
    return count / took


if __name__ == "__main__":
    main()
