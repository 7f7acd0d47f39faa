"""Threads, deadlines and futures of an engine.

- `deadline`: the time by which a request must be finished.
- `futures`: futures whose callbacks run on another thread.
- `workers`: threads that compute, and forked processes, where none does.
"""
