"""What is measured, and how: ``make bench``.

A regular package: one of the same name that another project installs (pyarrow 17) cannot hide it.
"""
