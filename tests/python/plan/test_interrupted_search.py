"""tremula plan of a model that does not fit: the search shows its progress, and Ctrl-C ends it."""

import os
import pty
import signal
import subprocess

LAYERS = 4000


def _write_row(path):
    """Layers whose results all stay until the end: more than an IPU holds, in many plans."""
    lines = ["HloModule m", "ENTRY e {", "  x0 = f32[512,512] parameter(0)",
             "  w = f32[512,512] parameter(1)"]
    for i in range(LAYERS):
        scope = f'metadata={{op_name="layer{i // 50}/MatMul"}}'
        lines.append(f"  d{i} = f32[512,512] dot(x{i}, w), lhs_contracting_dims={{1}}, "
                     f"rhs_contracting_dims={{0}}, {scope}")
        lines.append(f"  x{i + 1} = f32[512,512] tanh(d{i}), {scope}")
    last = f"x{LAYERS}"
    for i in reversed(range(LAYERS)):
        lines.append(f"  s{i} = f32[512,512] add({last}, x{i})")
        last = f"s{i}"
    lines += [f"  ROOT r = f32[512,512] negate({last})", "}"]
    path.write_text("\n".join(lines))


def test_interrupt_gives_the_best_so_far(tool_path, tmp_path):
    _write_row(tmp_path / "row.hlo")
    terminal, side = pty.openpty()
    # A test run in the background ignores SIGINT, and its children with it.
    process = subprocess.Popen(
        [tool_path, "plan", str(tmp_path / "row.hlo")], stdout=subprocess.PIPE, stderr=side,
        text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    os.close(side)
    shown = ""
    while "would help: 1 plans (Ctrl-C" not in shown:
        shown += os.read(terminal, 4096).decode()
    process.send_signal(signal.SIGINT)
    answer, _ = process.communicate(timeout=600)
    os.close(terminal)
    assert process.returncode == 3
    assert "The search was interrupted." in answer
    # The change that was planned before is in the answer.
    help_begins = answer.index("What would help: ")
    assert "float16 instead of float32 for everything" in answer[help_begins:]
    assert "The smallest number of IPUs" not in answer
