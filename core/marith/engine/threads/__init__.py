"""Run an engine's threads, and wait for their results until a deadline.

- `deadline`: the time by which a request must be finished.
- `futures`: futures whose callbacks run on another thread.
- `workers`: threads that compute, and the check for forked processes, which have no threads.
"""
