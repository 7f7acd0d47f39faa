"""Rotary frequencies that depend on how long a text is: by which is each text read?"""
