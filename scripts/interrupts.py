#!/usr/bin/env python3
"""Ctrl-C at random moments of a program's life: configuring, building, compiling, running, feeding,
dequeuing, closing, ending; with --import while it starts.

    scripts/interrupts.py [COUNT] [SEED] [--import]

Each program must end with KeyboardInterrupt, or be done already, which Python's exit code tells. It
must hold no IPU and leave no half file in its cache, and then another program must work. COUNT is
100. The programs are forks of one process that has imported TensorFlow, so that each takes a second
or two.
"""

import contextlib
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
PATIENCE = 300  # seconds after which a program counts as hanging
ENDS = b"The program is done; Python ends.\n"  # it has no handler of SIGINT any more


def program():
    """A program to interrupt: feeds in a loop, a pipeline, variables, a checkpoint."""
    import tensorflow.compat.v1 as tf
    from tensorflow.python import ipu
    tf.disable_v2_behavior()
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    data = tf.data.Dataset.range(1 << 40).map(lambda i: tf.cast(i % 7, tf.float32) + tf.zeros([8]))
    feed = ipu.ipu_infeed_queue.IPUInfeedQueue(data)
    out = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    def step(x):
        w = tf.get_variable("w", [8], initializer=tf.ones_initializer(), use_resource=True)
        loss = tf.reduce_sum(tf.square(w * x - 1.))
        with tf.control_dependencies([tf.train.GradientDescentOptimizer(1e-4).minimize(loss)]):
            return out.enqueue(loss)

    with ipu.scopes.ipu_scope("/device:IPU:0"), tf.variable_scope("", reuse=tf.AUTO_REUSE):
        train = ipu.ipu_compiler.compile(lambda: ipu.loops.repeat(50, step, [], feed))
        alone, = ipu.ipu_compiler.compile(lambda: tf.matmul(tf.ones([64, 64]), tf.ones([64, 64])))
    losses, saver = out.dequeue(), tf.train.Saver()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(feed.initializer)
        for _ in range(4):
            session.run(train)
            assert len(session.run(losses)) == 50
            session.run(alone)
        saver.save(session, os.path.join(os.environ["WORK"], "model"))
        session.run(feed.deleter)
    os.write(1, ENDS)


def start(child_output, command=None):
    """The process id of a program, or 0 in the program itself."""
    if command:
        return subprocess.Popen(command, stdout=child_output, stderr=child_output).pid
    pid = os.fork()
    if pid == 0:
        os.dup2(child_output.fileno(), 1)
        os.dup2(child_output.fileno(), 2)
    return pid


def wait(pid, seconds):
    """The status of a process, or None if it has not ended in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(.002)
    return None


def judge(code, text, work):
    """The fault of a program that was interrupted, or None."""
    if code is None:
        return "it hangs"
    if code == 1 and "/site-packages/tensorflow/" in text.rsplit('  File "', 1)[-1]:
        code = 0  # TensorFlow raised another exception instead
    if code not in (0, -signal.SIGINT):
        return f"exit code {code}"
    if code and "KeyboardInterrupt" not in text and ENDS.decode() not in text:
        return "no KeyboardInterrupt"
    if any(sign in text for sign in ("Segmentation", "Fatal Python", "core dumped", "terminate")):
        return "a crash"
    left = [str(path) for path in (work / "cache").rglob("*") if path.is_file()
            and path.suffix not in (".poplar_exec", ".hlo")]
    locks = subprocess.run([str(ROOT / "build/release/bin/gc-monitor")], text=True, check=False,
                           capture_output=True).stdout
    if "No attached" not in locks and str(os.getpid()) in locks:
        return "an IPU is attached"
    return f"left: {left}" if left else None


def main():
    """None in a program; in the parent, the number of failures."""
    words = [one for one in sys.argv[1:] if one != "--import"]
    count = int(words[0]) if words else 100
    generator = random.Random(int(words[1]) if len(words) > 1 else 0)
    work = pathlib.Path(tempfile.mkdtemp(prefix="tremula-interrupts-"))
    os.environ.update(WORK=str(work), TREMULA_RUNTIME_DIR=str(work / "locks"),
                      TF_POPLAR_FLAGS=f"--executable_cache_path={work}/cache",
                      TF_CPP_MIN_LOG_LEVEL="2")
    command = [sys.executable, __file__, "--one"] if "--import" in sys.argv else None
    if not command:
        import tensorflow.compat.v1  # pylint: disable=unused-import
        from tensorflow.python import ipu  # pylint: disable=unused-import
    longest, failures = None, 0
    for number in range(count + 1):
        if generator.random() < .3:
            shutil.rmtree(work / "cache", ignore_errors=True)
        with open(work / "output", "w+", encoding="utf-8", errors="replace") as output:
            began = time.monotonic()
            pid = start(output, command)
            if pid == 0:
                return None
            if number:
                delay = generator.uniform(0, longest)
                code = wait(pid, delay)
                if code == 0:  # the first one took longer, without a cache
                    longest = max(time.monotonic() - began, longest / 2)
                if code is None:
                    os.kill(pid, signal.SIGINT)
                    code = wait(pid, PATIENCE)
                wrong = judge(code, (work / "output").read_text(errors="replace"), work)
            else:
                code = wait(pid, PATIENCE)
                longest = time.monotonic() - began
                wrong = f"exit code {code} without an interrupt" if code else None
            if code is None:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        if wrong:
            failures += 1
            kept = work / f"failure-{number}"
            with contextlib.suppress(OSError):
                shutil.copy(work / "output", kept)
            print(f"{number}: {wrong} (after {delay if number else 0:.3f} of {longest:.3f} s): "
                  f"{kept}", flush=True)
            if number == 0:
                break
        if number and number % 20 == 0:
            print(f"{number} interrupts, {failures} failures", flush=True)
    print(f"{count} interrupts, {failures} failures", flush=True)
    if not failures:
        shutil.rmtree(work)
    return failures


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "python"))
    os.environ.setdefault("TREMULA_LIBRARY_DIR", str(ROOT / "build/release/lib"))
    import tremula._finder  # noqa: F401  pylint: disable=unused-import
    failed = None if "--one" in sys.argv else main()
    if failed is None:
        program()
    else:
        sys.exit(failed != 0)
