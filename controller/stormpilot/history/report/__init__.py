"""The report on a traffic log: one page without any outside resource, and the same as JSON.

- `gather.py`: what is drawn, from the log with Spark, small enough for a page
- `plots.py`: the drawings (SVG); `page.py`: the page around them
"""
