"""Taking found stretches away: cuts, lists for editors, tables, subtitles, contact sheets.

Read `settings` (what there is), `frames` (rates, timecodes, a file's own clock), `picks` (what is taken), `cuts` (with
the worker that runs them), `lists`, `sheet`; `taking` finds the files, writes every form, and is the call for programs.
"""
