/* A user op: points (x, y) rotated by angles, and its gradient. Built by rotate.py. */
#include <math.h>
#include <stdio.h>

#include <tremula/user_op.h>

TRM_USER_OP(Rotate)
TRM_USER_OP_METADATA(Rotate)
TRM_USER_OP(Rotate_grad)
TRM_USER_OP_METADATA(Rotate_grad)

/* Inputs: x, y, angle. Outputs: the rotated x and y. All of one length, f32. */
int Rotate(const trm_user_op_call *call) {
  const float *x = call->inputs[0], *y = call->inputs[1], *angle = call->inputs[2];
  float *out_x = call->outputs[0], *out_y = call->outputs[1];
  const uint64_t count = call->input_info[0].elements;
  if (call->input_info[2].elements != count) {
    snprintf(call->message, call->message_size, "there are %llu points and %llu angles",
             (unsigned long long)count, (unsigned long long)call->input_info[2].elements);
    return TRM_USER_OP_INVALID_ARGUMENT;
  }
  for (uint64_t i = 0; i < count; ++i) {
    const float c = cosf(angle[i]), s = sinf(angle[i]);
    out_x[i] = x[i] * c - y[i] * s;
    out_y[i] = x[i] * s + y[i] * c;
  }
  return TRM_USER_OP_OK;
}

/* Inputs: gradients of the two outputs, the two outputs, the three inputs. */
int Rotate_grad(const trm_user_op_call *call) {
  const float *dx = call->inputs[0], *dy = call->inputs[1];
  const float *out_x = call->inputs[2], *out_y = call->inputs[3], *angle = call->inputs[6];
  float *grad_x = call->outputs[0], *grad_y = call->outputs[1], *grad_angle = call->outputs[2];
  for (uint64_t i = 0; i < call->input_info[0].elements; ++i) {
    const float c = cosf(angle[i]), s = sinf(angle[i]);
    grad_x[i] = dx[i] * c + dy[i] * s;
    grad_y[i] = dy[i] * c - dx[i] * s;
    grad_angle[i] = dy[i] * out_x[i] - dx[i] * out_y[i];
  }
  return TRM_USER_OP_OK;
}

/* The same inputs give the same outputs, and the code does not change behind our back. */
void Rotate_metadata(trm_user_op_metadata *metadata) {
  metadata->is_stateless = true;
  metadata->is_hashable = true;
  metadata->is_elementwise = true;
}

void Rotate_grad_metadata(trm_user_op_metadata *metadata) { Rotate_metadata(metadata); }
