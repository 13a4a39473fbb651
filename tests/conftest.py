import os
import signal
from collections import Counter

import pytest
from hypothesis import settings
from numba.core.dispatcher import Dispatcher

from tests import compilation
from tests.kafka.broker import VERSION, lacking

# Compiled code is slow on its first call, and machines are shared: examples are bounded by count.
settings.register_profile("streamk", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("streamk")

compilation.share()

# Whoever starts the suite in the background makes it ignore interruptions, and what it starts inherits that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Let one worker run the tests of a module that compiles functions of its own, which are not cached.

    Laws compile little of their own, and take too long for one worker.
    """
    for item in items:
        name = getattr(item, "module", None) and item.module.__name__
        if name is None or name.startswith("tests.laws."):
            continue
        if any(isinstance(f, Dispatcher) and f.__module__ == name for f in vars(item.module).values()):
            item.add_marker(pytest.mark.xdist_group(name))
    items[:] = mixed(items)


def mixed(items):
    """Return tests with those of files that wait evenly among those of files that compute."""
    files = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    halves = [], []
    for path, tests in files.items():
        halves["kafka" in path.parts or path.suffix == ".md"].append(tests)
    placed = [(k / len(half), tests) for half in halves for k, tests in enumerate(half)]
    return [item for _, tests in sorted(placed, key=lambda each: each[0]) for item in tests]


def pytest_terminal_summary(terminalreporter):
    """Print the minutes that the tests of each package took, added up over all workers."""
    seconds = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if hasattr(report, "duration") and hasattr(report, "nodeid"):
                path = report.nodeid.partition("::")[0].split("/")
                seconds["/".join(path[: 3 if path[:2] == ["tests", "connectors"] else 2])] += report.duration
    if seconds.total() > 60.0:
        terminalreporter.write_sep("=", "minutes by package")
        for package, spent in seconds.most_common():
            terminalreporter.write_line(f"{spent / 60.0:6.1f}  {package}")


def pytest_configure(config):
    """Say which Kafka the daemon is tested on; a header would not be shown where pytest is quiet."""
    if hasattr(config, "workerinput"):
        return
    if given := os.environ.get("STREAMK_TEST_KAFKA"):
        kafka = f"{given} (STREAMK_TEST_KAFKA)"
    elif why := lacking():
        kafka = f"a stand-in from pip, since {why}; what it cannot do is skipped with the reason"
    else:
        kafka = f"Apache Kafka {VERSION}"
    print(f"kafka: {kafka}")
