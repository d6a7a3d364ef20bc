"""A KeyboardInterrupt at whichever moment of a call that another thread makes: it arrives, and
nothing waits for ever."""

_EVERY_MOMENT = """
    import sys, threading
    from tremula.tf.runtime.sessions import interrupts

    class Library:
        trm_tf_interrupt_runs = trm_tf_interrupt_resume = staticmethod(lambda: None)
        trm_tf_interrupted_feeds = staticmethod(lambda: False)

    interrupts._in_thread = lambda call, arguments, keywords: call(*arguments, **keywords)

    def raise_at(moment):
        passed = 0

        def trace(frame, event, _):
            nonlocal passed
            if frame.f_code.co_filename != interrupts.__file__:
                return None
            frame.f_trace_opcodes = True
            if event == "opcode":
                passed += 1
                if passed == moment:
                    sys.settrace(None)
                    raise KeyboardInterrupt
            return trace

        sys.settrace(trace)

    interrupted = 0
    while True:
        raise_at(interrupted + 1)
        try:
            result = interrupts._run_beside(lambda: 7, (), {}, Library)
            break
        except KeyboardInterrupt:
            interrupted += 1
        finally:
            sys.settrace(None)
    print(result, interrupted > 50)
"""


def test_every_moment(script):
    process = script(_EVERY_MOMENT)
    assert process.stdout == "7 True\n", process.stderr[-3000:]
