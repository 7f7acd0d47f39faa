"""How is a formula read from text, and shown to people?"""
