"""Ctrl-C while a process waits for IPUs that another has."""

import signal


def test_interrupting_a_wait(script, hold):
    hold(8)
    process = script(16, "ON_DEMAND", """
        import signal
        # A shell that starts a job in the background makes it ignore Ctrl-C.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for _ in range(2):  # the second time, as if nothing had been
            try:
                run()
            except KeyboardInterrupt:
                print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, flush=True)
    """, TF_POPLAR_FLAGS="--on_demand_device_timeout=3600000 --on_demand_device_poll_time=1800000")
    for _ in range(2):
        for line in process.stderr:
            if "waits for IPUs" in line:
                break
        else:
            raise AssertionError("it did not wait")
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "True\n"
    process.communicate(timeout=600)
    assert process.returncode == 0
