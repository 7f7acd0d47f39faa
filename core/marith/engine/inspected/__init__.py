"""Which calls of an engine ask why a token is there?"""
