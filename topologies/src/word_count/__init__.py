"""Word count in the two forms of the N-Storm paper: bound by communication, and bound by computation.

"Online Nonstop Task Management for Storm-Based Distributed Stream Processing Engines": section 5.1 describes the
topology, 5.3 its second form. `sentences` makes the input up, `spout` emits it, `bolts` split and count, `work` is the
computation of the second form, `settings` the list of the configuration keys.
"""
