from hypothesis import settings

# Compiled code is slow on its first call, and machines are shared: examples are bounded by count.
settings.register_profile("streamk", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("streamk")
