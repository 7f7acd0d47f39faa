"""Threads, deadlines and futures of an engine.

- `deadline`: until when a request has to be finished.
- `engine_thread`: the thread that owns the models.
- `futures`: futures whose callbacks run on another thread.
- `workers`: threads that compute, and forked processes, where none does.
"""
