"""Progress bars: nothing by default on a terminal, text in a notebook."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

CELL = """
import numpy as np, time
import streamk.progress
streamk.progress._AFTER = {after}
from streamk.evaluation import replay
from river.linear_model import LogisticRegression
class Slow(LogisticRegression):
    def learn_one(self, x, y):
        super().learn_one(x, y)
        time.sleep(0.0002)
events = [({{"a": float(k % 7)}}, k % 7 > 3) for k in range(4000)]
results = replay(events, {{"line": Slow()}}{options})
"""


def outputs(**cell):
    """Return what a notebook's cell shows."""
    manager = pytest.importorskip("jupyter_client.manager")

    async def run():
        kernel = manager.AsyncKernelManager(kernel_name="python3")
        kernel.kernel_spec.argv[0] = sys.executable
        root = str(Path(__file__).parent.parent)
        await kernel.start_kernel(env={**os.environ, "PYTHONPATH": root})
        client = kernel.client()
        client.start_channels()
        try:
            await client.wait_for_ready(timeout=120)
            shown, errors = [], []

            def take(message):
                content = message["content"]
                if message["msg_type"] in ("display_data", "update_display_data"):
                    shown.append(content["data"]["text/plain"])
                elif message["msg_type"] in ("error", "stream"):
                    errors.append(str(content))

            reply = await client.execute_interactive(CELL.format(**cell), timeout=300, output_hook=take)
            assert reply["content"]["status"] == "ok", errors
            return shown, errors
        finally:
            client.stop_channels()
            await kernel.shutdown_kernel(now=True)

    return asyncio.run(run())


def test_a_notebook_shows_text_that_is_replaced():
    shown, others = outputs(after=0.0, options="")
    assert len(shown) > 1
    assert all(text.startswith("replay") for text in shown), shown
    assert "4000/?" in shown[-1]
    assert "\n" not in shown[-1]
    assert others == []


def test_a_notebook_shows_nothing_if_that_is_set_or_if_it_is_fast():
    assert outputs(after=0.0, options=", progress=False") == ([], [])
    assert outputs(after=600.0, options="") == ([], [])
