"""device_connection.type, and processes that want the same IPUs."""


def finish(process):
    """(stdout, stderr) of a process that must succeed."""
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    return out, err


def test_the_second_process_gets_the_error_and_a_killed_one_frees_its_ipus(script, hold, tool):
    holder = hold(8)
    process = script(16, "ALWAYS", "print(run())")
    out, err = process.communicate(timeout=600)
    assert process.returncode == 1 and out == ""
    assert ("InternalError: Could not find an available device for TensorFlow virtual device "
            "/device:IPU:0. This device was expected to have 16 IPU(s).") in err
    assert f"process {holder.pid}" in err
    holder.kill()  # SIGKILL: nothing in it can clean up
    holder.wait()
    out, err = finish(script(16, "ALWAYS", """
        print(run())
        ipu.config.reset_ipu_configuration()
        print("reset", flush=True)
        sys.stdin.readline()
    """))
    assert out == "[2.0, 3.0]\nreset\n"
    assert "Device /device:IPU:0 attached to IPUs: 30" in err


def test_selected_ids_and_a_killed_process_with_replicas(script, tool):
    """Two replicas run; who selects all 16 IPUs is refused, or waits until that process is
    killed."""
    holder = script(2, "ALWAYS", """
        print("attached", flush=True)
        run(lambda x: ipu.loops.repeat(2000000000, lambda x: 0.5 *
                                       ipu.cross_replica_ops.cross_replica_sum(x), [x]))
    """)
    assert holder.stdout.readline() == "attached\n"
    process = script(1, "NEVER", """
        for connection in ("ALWAYS", "ON_DEMAND"):
            config = ipu.config.IPUConfig()
            config.select_ipus = 30
            config.device_connection.type = ipu.config.DeviceConnectionType[connection]
            try:
                config.configure_ipu_system()
                print(run())
            except tf.errors.InternalError as error:
                print("This device was expected to have 16 IPU(s)" in str(error), flush=True)
    """, TF_POPLAR_FLAGS="--on_demand_device_timeout=600000 --on_demand_device_poll_time=100")
    try:
        assert process.stdout.readline() == "True\n"
        for line in process.stderr:
            if "waits for IPUs" in line:
                break
        else:
            raise AssertionError("it did not wait")
        assert holder.poll() is None and str(holder.pid) in tool("gc-monitor").stdout
    finally:
        holder.kill()  # SIGKILL
        holder.communicate()
    out, err = finish(process)
    assert out == "[2.0, 3.0]\n" and "attached to IPUs: 30" in err


def test_reset_lets_the_ipus_go(script, tool):
    process = script(16, "ALWAYS", """
        print("attached", flush=True)
        sys.stdin.readline()
        ipu.config.reset_ipu_configuration()
        print("free", flush=True)
        sys.stdin.readline()
    """)
    assert process.stdout.readline() == "attached\n"
    assert str(process.pid) in tool("gc-monitor").stdout
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "free\n"
    assert "No attached processes" in tool("gc-monitor").stdout
    finish(process)


def test_on_demand_attaches_at_the_first_run_and_waits(script, hold, tool):
    holder = hold(8)
    process = script(16, "ALWAYS", """
        print("configured", flush=True)
        sys.stdin.readline()
        print(run())
    """, TF_POPLAR_FLAGS="--use_on_demand --on_demand_device_poll_time=100")
    assert process.stdout.readline() == "configured\n"
    assert str(process.pid) not in tool("gc-monitor").stdout
    process.stdin.write("\n")
    process.stdin.flush()
    for line in process.stderr:
        if "waits for IPUs" in line:
            break
    else:
        raise AssertionError("it did not wait")
    assert "every 100 ms" in line and process.poll() is None
    holder.kill()
    holder.wait()
    out, err = finish(process)
    assert out == "[2.0, 3.0]\n" and "attached to IPUs: 30" in err


def test_on_demand_gives_up_and_refuses_what_cannot_be(script, hold):
    hold(8)
    out, _ = finish(script(16, "ON_DEMAND", """
        try:
            run()
        except tf.errors.InternalError as error:
            print("Could not find an available device" in str(error))
        for selected in ([24, 4], [30, 1]):
            again = ipu.config.IPUConfig()
            again.select_ipus = selected
            again.device_connection.type = ipu.config.DeviceConnectionType.ON_DEMAND
            try:
                again.configure_ipu_system()
            except tf.errors.InvalidArgumentError as error:
                print("another device of this process" in str(error))
    """, TF_POPLAR_FLAGS="--on_demand_device_timeout=300 --on_demand_device_poll_time=100"))
    assert out == "True\nTrue\nTrue\n"


def test_never_compiles_and_refuses_to_run(script, hold):
    hold(16)
    out, _ = finish(script(1, "NEVER", """
        try:
            run()
        except tf.errors.InvalidArgumentError as error:
            print("Trying to run an executable on a device that was configured for compilation "
                  "only." in str(error))
    """))
    assert out == "True\n"


def test_pre_compile_fills_the_cache_and_gives_zeros(script, hold, tmp_path):
    hold(16)
    out, _ = finish(script(1, "PRE_COMPILE", """
        try:
            run()
        except tf.errors.FailedPreconditionError as error:
            print("'executable_cache_path' in 'TF_POPLAR_FLAGS' has not been set" in str(error))
    """))
    assert out == "True\n"
    cache = tmp_path / "cache"
    out, err = finish(script(1, "PRE_COMPILE", """
        print(run())
        queue = ipu.ipu_outfeed_queue.IPUOutfeedQueue("out")
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            def body(x):
                return x + 1.0, queue.enqueue(x)
            total, = ipu.ipu_compiler.compile(
                lambda: ipu.loops.repeat(3, body, [tf.constant(1.0)]))
        with tf.Session() as session:
            print(session.run(total), session.run(queue.dequeue()))
    """, TF_POPLAR_FLAGS=f"--executable_cache_path={cache}"))
    assert out == "[0.0, 0.0]\n0.0 [0.]\n"
    files = list(cache.glob("*.poplar_exec"))
    assert len(files) == 2
    for file in files:
        assert f"A pre-compiled Poplar program has been saved to {file}" in err


def test_connections_have_the_numbers_that_the_plugin_knows():
    from tensorflow.python.ipu.config import DeviceConnectionType
    from tremula import tables
    assert tables.CONNECTIONS == {one.name: one.value for one in DeviceConnectionType}
