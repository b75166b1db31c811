"""Rounds and loops: schedule, bill, reconcile. Hosted by the gateway when embedded, run by cron or alone on a cluster."""
