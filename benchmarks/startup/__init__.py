"""Time from calling `stormpilot` to its end, beside what is not ours."""
