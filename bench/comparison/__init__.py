"""The parts of bench/peers.py.

    networks   the networks, as cases
    worker     the peers, each in a process: ours, TensorFlow's graph, XLA, our C core alone
    rounds     runs the peers in turns and keeps the times
    startup    the time from the import to the first result
    machine    the machine, and how busy other processes keep it
"""
