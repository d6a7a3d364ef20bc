"""The HLO programs whose profiles the tests of the analyser open."""

PLAIN = """HloModule plain

ENTRY main {
  x = f32[64,256] parameter(0)
  w = f32[256,512] parameter(1), metadata={op_type="MatMul" op_name="net/wide/MatMul" source_file="model.py" source_line=3}
  h = f32[64,512] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_type="MatMul" op_name="net/wide/MatMul" source_file="model.py" source_line=3}
  t = f32[64,512] tanh(h), metadata={op_type="Tanh" op_name="net/wide/Tanh" source_file="model.py" source_line=4}
  v = f32[512,16] parameter(2)
  ROOT y = f32[64,16] dot(t, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_type="MatMul" op_name="net/narrow/MatMul" source_file="model.py" source_line=5}
}
"""

# The same with a layer more and another type of numbers in one layer.
CHANGED = PLAIN.replace("HloModule plain", "HloModule changed").replace(
    "  ROOT y = ", """  t2 = f32[64,512] sine(t), metadata={op_type="Sin" op_name="net/wide/Sin" source_file="model.py" source_line=4}
  ROOT y = """).replace("dot(t, v)", "dot(t2, v)")

# The same with a layer of another name.
RENAMED = PLAIN.replace("HloModule plain", "HloModule renamed").replace(
    "net/narrow/MatMul", "net/narrow/MatMul_1")

# A layer and its gradient, named as TensorFlow names them.
GRADIENTS = """HloModule gradients

ENTRY main {
  x = f32[64,256] parameter(0)
  w = f32[256,512] parameter(1)
  h = f32[64,512] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_type="MatMul" op_name="net/layer/MatMul"}
  t = f32[64,512] tanh(h), metadata={op_type="Tanh" op_name="net/layer/Tanh"}
  ROOT g = f32[256,512] dot(x, t), lhs_contracting_dims={0}, rhs_contracting_dims={0}, metadata={op_type="MatMul" op_name="gradients/net/layer/MatMul_grad/MatMul_1"}
}
"""

# More than an IPU's memory.
LARGE = """HloModule too_large

ENTRY main {
  x = f32[2048,8192] parameter(0)
  w = f32[8192,16384] parameter(1)
  v = f32[16384,8192] parameter(2)
  h = f32[2048,16384] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_type="MatMul" op_name="wide/MatMul"}
  ROOT y = f32[2048,8192] dot(h, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_type="MatMul" op_name="narrow/MatMul"}
}
"""

LOOP = """HloModule loop

body {
  s = (s32[], f32[128,128]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[128,128] get-tuple-element(s), index=1
  y = f32[128,128] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_type="MatMul" op_name="turn/MatMul"}
  z = f32[128,128] tanh(y), metadata={op_type="Tanh" op_name="turn/Tanh"}
  ROOT r = (s32[], f32[128,128]) tuple(next, z)
}

condition {
  s = (s32[], f32[128,128]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(10)
  ROOT c = pred[] compare(i, n), direction=LT
}

ENTRY main {
  x = f32[128,128] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[128,128]) tuple(zero, x)
  w = (s32[], f32[128,128]) while(t), condition=condition, body=body
  ROOT y = f32[128,128] get-tuple-element(w), index=1
}
"""

# Runs of it count the loop 10, 20, ... times: an output is the next run's count.
COUNTED = """HloModule counted, input_output_alias={ {1}: (1, {}, may-alias) }

body {
  s = (s32[], s32[], f32[128,128]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[128,128] get-tuple-element(s), index=2
  y = f32[128,128] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_type="MatMul" op_name="turn/MatMul"}
  ROOT r = (s32[], s32[], f32[128,128]) tuple(next, n, y)
}

condition {
  s = (s32[], s32[], f32[128,128]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  ROOT c = pred[] compare(i, n), direction=LT
}

ENTRY main {
  x = f32[128,128] parameter(0)
  n = s32[] parameter(1)
  zero = s32[] constant(0)
  t = (s32[], s32[], f32[128,128]) tuple(zero, n, x)
  w = (s32[], s32[], f32[128,128]) while(t), condition=condition, body=body
  y = f32[128,128] get-tuple-element(w), index=2
  more = s32[] constant(10)
  next = s32[] add(n, more)
  ROOT r = (f32[128,128], s32[]) tuple(y, next)
}
"""

HOSTILE_NAMES = ["<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>", "'; DROP--",
                 "\\u202eright to left", "\\U0001f600 emoji", "x" * 10000, "__proto__", "a&amp;b"]


def hostile():
    """A chain of ops whose names, files and scopes are those of an attacker."""
    lines = ["HloModule hostile", "", "ENTRY main {", "  v0 = f32[64,64] parameter(0)"]
    for number, name in enumerate(HOSTILE_NAMES):
        name = name.encode().decode("unicode_escape") if "\\u" in name.lower() else name
        root = "ROOT " if number == len(HOSTILE_NAMES) - 1 else ""
        lines.append(f'  {root}v{number + 1} = f32[64,64] dot(v{number}, v{number}), '
                     'lhs_contracting_dims={1}, rhs_contracting_dims={0}, '
                     'metadata={op_type="MatMul" '
                     f'op_name="{name}/MatMul" source_file="{name}.py" source_line={number + 1}}}')
    return "\n".join([*lines, "}", ""])


def pipeline(stages=4, batches=8):
    """Training in stages on as many IPUs, as in tests/c/program/pipeline_case.h."""
    state = "(s32[], " + ", ".join(["f32[256,256]"] * (stages + 1)) + ")"

    def mark(stage, backward=False):
        phase = ',pipeline_phase="backward"' if backward else ""
        return (f', sharding={{maximal device={stage}}}, '
                f'frontend_attributes={{pipeline_stage="{stage}"{phase}}}\n')
    text = (f"HloModule m\nturn {{ s = {state} parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
            "one = s32[] constant(1)  j = s32[] add(i, one)\n"
            f"x = f32[256,256] get-tuple-element(s), index={stages + 1}\n"
            f"z0 = f32[256,256] negate(x){mark(0)}")
    for s in range(stages):
        text += (f"w{s} = f32[256,256] get-tuple-element(s), index={s + 1}\n"
                 f"d{s} = f32[256,256] dot({'z' if s == 0 else 'a'}{max(0, s - 1)}, w{s}), "
                 f"lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}{mark(s)}"
                 f"a{s} = f32[256,256] tanh(d{s}){mark(s)}")
    for s in reversed(range(stages)):
        gradient = f"a{s}" if s == stages - 1 else f"e{s + 1}"
        text += (f"g{s} = f32[256,256] multiply({gradient}, a{s}){mark(s, True)}"
                 f"e{s} = f32[256,256] dot(g{s}, w{s}), lhs_contracting_dims={{1}}, "
                 f"rhs_contracting_dims={{1}}{mark(s, True)}")
    weights = ", ".join(f"w{s}" for s in range(stages))
    text += f"ROOT r = {state} tuple(j, {weights}, e0) }}\n"
    for outer, count in ((0, batches), (1, 1)):
        text += (f"until{outer} {{ s = {state} parameter(0)\n"
                 f"i = s32[] get-tuple-element(s), index=0  n = s32[] constant({count})\n"
                 "ROOT c = pred[] compare(i, n), direction=LT }\n")
    kept = range(1, stages + 2)

    def parts(letter, of):
        return "".join(f"{letter}{e} = f32[256,256] get-tuple-element({of}), index={e}\n" for e in kept)

    def names(letter):
        return ", ".join(f"{letter}{e}" for e in kept)
    text += (f"update {{ s = {state} parameter(0)\n"
             "i = s32[] get-tuple-element(s), index=0  one = s32[] constant(1)\n"
             f"k = s32[] add(i, one)  zero = s32[] constant(0)\n{parts('q', 's')}"
             f"t = {state} tuple(zero, {names('q')})\nl = {state} while(t), condition=until0, "
             f"body=turn\n{parts('p', 'l')}ROOT r = {state} tuple(k, {names('p')}) }}\n"
             "ENTRY e { z = s32[] constant(0)\n")
    text += "".join(f"q{e} = f32[256,256] parameter({e - 1})\n" for e in kept)
    mapping = ",".join(map(str, range(stages)))
    return text + (f"t = {state} tuple(z, {names('q')})\nw = {state} while(t), condition=until1, "
                   'body=update, frontend_attributes={pipeline="{\\"stages\\":' + str(stages) +
                   ',\\"training\\":true,\\"device_mapping\\":[' + mapping +
                   '],\\"schedule\\":\\"Grouped\\"}"}\n'
                   f"ROOT o = f32[256,256] get-tuple-element(w), index={stages + 1} }}\n")
