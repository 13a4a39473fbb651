"""What sources, sinks, logs and operators must do, and the failures that end or restart a run."""
