"""Shared by all trainers: loop, checkpoints, record of the run, losses and card."""
