"""Taking found stretches away: cuts, lists for editors, tables, subtitles, contact sheets.

Read `settings` (what there is), `frames` (rates and timecodes), `facts` (what a file's own clock says), `picks` (what
is taken), `copying` and `encoding` (cuts), `reader` (the worker that runs these), then a form each: `timelines`,
`fcpxml`, `tables`, `sheet`; `export` brings all together, and `taking`, which finds the files, is the one call for
programs.
"""
