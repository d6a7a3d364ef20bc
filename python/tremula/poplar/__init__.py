"""Poplar's C++ headers over Tremula, and popc: operators in C++ (docs/custom_operators.md).

    include, lib, bin, enable.sh   what a user's compiler and shell see
    popc       compiles codelets, with vertices (reads DWARF) and generator (writes C++)
    paths      where these lie, and the cache of compiled codelets
"""
