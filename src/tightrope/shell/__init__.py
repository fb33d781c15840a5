"""What the commands of ``tightrope.cli`` share: names of commands, saving, policies in words."""
