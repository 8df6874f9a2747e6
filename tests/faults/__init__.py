"""Kills, writers at once, full disks, flipped bits and damaged files, against the commands as users run them.

``MEDLINK_FAULTS=full`` runs every point; otherwise a sample that fits beside the other tests. ``make faults`` makes the
table of ``docs/explanation/reliability.md``.
"""
