"""Why is this token there, and what else would have been?"""
