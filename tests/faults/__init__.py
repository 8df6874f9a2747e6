"""Kills, concurrent writers, full disks, flipped bits and damaged files, against the commands as users run them.

``MEDLINK_FAULTS=full`` runs every point, otherwise each writer has one sampled point. ``make faults`` writes the table
of ``docs/explanation/reliability.md``.
"""
