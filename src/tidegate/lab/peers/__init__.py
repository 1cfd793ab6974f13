"""Other libraries that manage a context window: a registry, their environments, and the scripts that run their code.

Each library runs in its own environment (`make peers` builds them). The scripts in `scripts/` are run by that
environment's interpreter, for the lab on recordings and for bench/ on a generated conversation; tidegate never imports
them. A peer with an environment runs the published code of its library. A peer without one is reimplemented in a few
lines here and reported as such.
"""
