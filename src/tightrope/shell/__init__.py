"""What the commands of ``tightrope.cli`` share: names of commands, saving, policies in words.

Only ``cli`` imports it. Nothing here computes: it reads words, prints lines and writes files.
"""
