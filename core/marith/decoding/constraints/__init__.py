"""Which tokens and texts are allowed?"""
