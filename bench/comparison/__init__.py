"""What bench/peers.py is made of.

    networks   what is computed: the networks, as cases
    worker     the peers: ours, TensorFlow's graph, XLA, our C core alone; a process each
    rounds     runs the peers in turns and keeps the times
    startup    what a user waits for: import to first result
    machine    what the machine is, and how busy others keep it
"""
