"""What does a formula mean, before a model loads?"""
