"""Modules with the names and behaviours of other packages, so that a program changes its imports only."""
