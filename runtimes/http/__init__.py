"""The gateway: HTTP in front of the use cases. It checks, records and answers; it never books, launches or moves a phase."""
