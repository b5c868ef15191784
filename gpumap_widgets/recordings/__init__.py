"""A live run in a file: prediction and observation, to be looked at again without the machine.

What was seen is kept as it was seen. What is foretold is computed anew by this release, and said beside what the release
of that day foretold, so that a change of rules shows. A recording says when and where it was made; it is never taken for
a run of now.
"""
