"""Replay: what past windows would have looked like with another planner, parameters or rules, and which were best.

- `values.py`: a step of the past, a setting to try, what it cost
- `rebuild.py`: rows of the traffic log into planning models; `read.py`: the Spark part of that
- `play.py`: one setting played over the steps, in time order; `past.py`: what really happened, by the same figures
- `score.py`: costs into one number; `grid.py`: the settings to try; `choose.py`: the best per topology, confirmed on
  days that it was not chosen by
- `coming.py`: plans for the step that comes; `publishing.py`: what is recommended, for the controllers
- `study.py`: all of it; `spread.py`: many runs at once, on Spark; `evidence.py`: the files that are kept

What a step would have looked like under another placement is what the flow model says (model/flow/model.py);
what would have been done is what `decide/` says, with the same settings as the controller's.
"""
