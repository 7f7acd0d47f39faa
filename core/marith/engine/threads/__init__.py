"""Which thread does what, until when, and what becomes of it at a fork and at the end?"""
