"""Tests of the program on rigs: hosts, disks, stores and daemons of this machine (lab/rig)."""
