"""State: checkpoints, backends, positions, snapshots, and edits while a daemon is stopped."""
