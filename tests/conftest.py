import os

from hypothesis import settings

from tests.kafka.broker import VERSION, lacking

# Compiled code is slow on its first call, and machines are shared: examples are bounded by count.
settings.register_profile("streamk", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("streamk")


def pytest_report_header():
    if given := os.environ.get("STREAMK_TEST_KAFKA"):
        return f"kafka: {given} (STREAMK_TEST_KAFKA)"
    if why := lacking():
        return f"kafka: a stand-in from pip, since {why}; what it cannot do is skipped with the reason"
    return f"kafka: Apache Kafka {VERSION}"
