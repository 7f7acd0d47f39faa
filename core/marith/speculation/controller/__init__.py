"""How much to draft now, from what passes cost and which drafts stood?"""
