"""Which thread does what, until when, and what becomes of it at the end?"""
