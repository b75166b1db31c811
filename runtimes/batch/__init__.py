"""What runs on its own: schedule, reconcile, bill."""
