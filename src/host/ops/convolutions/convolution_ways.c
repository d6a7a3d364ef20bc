/* Owns: who computes a convolution: the table of ways, and the kernel that is made of the one that
 * serves. A convolution is first restated as a forward convolution or one of its two gradients
 * (convolution_problem.h). Operands are widened, cut into pieces or reordered for a way, and its
 * result is brought back, unless it reads and writes HLO's arrays. */
#include <string.h>

#include "host/ops/convolutions/convolution_draft.h"
#include "host/ops/products/panel_steps.h"

/* How halves are multiplied in this convolution, on this CPU. */
static trm_half_products products_of(const trm_kernel_request *request,
                                     const trm_convolution_problem *p) {
  int64_t x = p->batch, y = p->batch, kernel = 1;
  for (int i = 0; i < p->spatial; ++i) {
    x *= p->x_size[i], y *= p->y_size[i], kernel *= p->k_size[i];
  }
  trm_half_problem halves = {.lhs = trm_operand_shape(request, 0)->dtype,
                             .rhs = trm_operand_shape(request, 1)->dtype,
                             .result = request->instruction->shape.dtype,
                             .rows = y,
                             .columns = p->out_channels,
                             .inner = p->in_channels * kernel};
  trm_half_tiles unused;
  /* With tiles, thin groups would cost more for cutting pieces than for products. */
  halves.by_tiles =
      p->groups == 1 && p->in_channels >= 16 && trm_convolution_plan_tiles(p, &unused);
  if (p->kind == TRM_BACKWARD_DATA) {
    halves.rows = x, halves.columns = p->in_channels, halves.inner = p->out_channels * kernel;
  } else if (p->kind == TRM_BACKWARD_WEIGHTS) {
    halves.rows = p->in_channels * kernel, halves.inner = y;
  }
  return trm_half_products_choose(trm_half_units_here(), request->module->half_products, &halves);
}

/* ---- Ways of our own ------------------------------------------------------------------------- */

static bool tiles_serve(trm_convolution_draft *draft) {
  draft->is_direct = draft->pieces > 0 && trm_operand_shape(draft->request, 0)->dtype == TRM_F16 &&
                     trm_convolution_plan_tiles(&draft->p, &draft->tiles);
  return draft->is_direct;
}

static trm_status add_tiles(trm_convolution_draft *draft, trm_place to, trm_error *error) {
  (void)to;
  draft->tiles.products = draft->products;
  return trm_half_tiles_add(draft->sequence, draft->request, &draft->tiles, error);
}

static bool winograd_serves(trm_convolution_draft *draft) {
  const trm_dtype dtype = draft->request->instruction->shape.dtype;
  return trm_operand_shape(draft->request, 0)->dtype == dtype &&
         trm_operand_shape(draft->request, 1)->dtype == dtype &&
         draft->products == TRM_HALF_PRODUCTS_FLOAT &&
         trm_winograd_plan(&draft->p, &draft->winograd);
}

static trm_status create_winograd(const trm_convolution_draft *draft, const char *name,
                                  const trm_kernel *direct, trm_kernel *out_kernel,
                                  trm_error *error) {
  return trm_winograd_create(draft->request, &draft->winograd, name, direct, out_kernel, error);
}

/* Gradients of weights, on packed panels. */
static bool gradient_serves(trm_convolution_draft *draft) {
  return draft->pieces == 0 && trm_weight_gradient_plan(&draft->p, &draft->gradient);
}

static bool transformed_gradient_serves(trm_convolution_draft *draft) {
  trm_weight_gradient unused;
  return gradient_serves(draft) && trm_weight_gradient_transform(&draft->gradient, &unused);
}

static trm_status add_gradient(trm_convolution_draft *draft, trm_place to, trm_error *error) {
  const int threads = trm_sequence_threads(draft->sequence);
  trm_arena *arena = draft->request->arena;
  trm_weight_gradient *own = trm_arena_copy(arena, &draft->gradient, sizeof draft->gradient);
  CHECK_MEMORY(own, "a gradient of weights");
  trm_weight_gradient_share(own, threads);
  trm_weight_gradient transformed;
  if (trm_weight_gradient_transform(own, &transformed)) {
    own = trm_arena_copy(arena, &transformed, sizeof transformed);
    CHECK_MEMORY(own, "a gradient of weights");
    trm_weight_gradient_share(own, threads);
  }
  return trm_sequence_add_worker(draft->sequence, trm_weight_gradient_run, own, draft->x, draft->y,
                                 to, trm_weight_gradient_scratch_bytes(own), error);
}

/* Halves, and a kernel of one element: a product of the pixels and the weights. The gradient by the
 * data is a convolution with exchanged channels. */
static bool half_panels_serve(trm_convolution_draft *draft) {
  const trm_convolution_problem *p = &draft->p;
  const trm_kernel_request *request = draft->request;
  if (draft->pieces > 0 || trm_operand_shape(request, 0)->dtype != TRM_F16 ||
      trm_operand_shape(request, 1)->dtype != TRM_F16 ||
      request->instruction->shape.dtype != TRM_F16 || p->kind != TRM_FORWARD || p->groups != 1 ||
      p->is_x_cropped) {
    return false;
  }
  int64_t rows = p->batch;
  for (int i = 0; i < p->spatial; ++i) {
    if (p->k_size[i] != 1 || p->stride[i] != 1 || p->x_size[i] != p->y_size[i]) return false;
    rows *= p->x_size[i];
  }
  draft->panels = (trm_panel_product){.rows = rows,
                                      .columns = p->out_channels,
                                      .inner = p->in_channels,
                                      .lhs_row = p->in_channels,
                                      .lhs_inner = 1,
                                      .rhs_inner = p->w.inner,
                                      .rhs_column = p->w.outer,
                                      .is_half = true};
  draft->is_direct = trm_convolution_is_channels_last(p, &p->x, p->in_channels, p->x_size) &&
                     trm_convolution_is_channels_last(p, &p->y, p->out_channels, p->y_size) &&
                     trm_panel_product_serves(&draft->panels, false);
  return draft->is_direct;
}

static trm_status add_half_panels(trm_convolution_draft *draft, trm_place to, trm_error *error) {
  return trm_sequence_add_panel_product(draft->sequence, draft->request->arena, &draft->panels,
                                        draft->x, draft->w, to, false, error);
}

/* ---- The table ------------------------------------------------------------------------------- */

static bool onednn_gradient_serves(trm_convolution_draft *draft) {
  return draft->p.kind == TRM_BACKWARD_WEIGHTS;
}

static bool onednn_serves(trm_convolution_draft *draft) {
  return draft->p.kind != TRM_BACKWARD_WEIGHTS;
}

const trm_convolution_way trm_convolution_ways[] = {
    {"tiles", 34, tiles_serve, add_tiles, NULL},
    {"winograd", 60, winograd_serves, NULL, create_winograd},
    {"winograd", 60, transformed_gradient_serves, add_gradient, NULL},
    {"grouped", 65, trm_grouped_convolution_plan, trm_grouped_convolution_add, NULL},
    {"panels", 80, half_panels_serve, add_half_panels, NULL},
    {"panels", 90, gradient_serves, add_gradient, NULL},
    {"onednn", 100, onednn_serves, trm_onednn_convolution_add, NULL},
    {"onednn", 100, onednn_gradient_serves, trm_onednn_weight_gradient_add, NULL},
};
const size_t trm_num_convolution_ways = sizeof trm_convolution_ways / sizeof *trm_convolution_ways;

/* The first way that serves, among those with steps or those with kernels of their own. */
static const trm_convolution_way *find_way(trm_convolution_draft *draft, bool has_steps) {
  for (size_t i = 0; i < trm_num_convolution_ways; ++i) {
    const trm_convolution_way *way = &trm_convolution_ways[i];
    if ((way->add != NULL) != has_steps) continue;
    draft->is_direct = false;
    if (way->serves(draft)) return way;
  }
  return NULL;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

typedef struct clearing {
  size_t bytes;
} clearing;

static void run_clear(const void *data, const void *a, const void *b, void *out) {
  (void)a, (void)b;
  memset(out, 0, ((const clearing *)data)->bytes);
}

/* Brings an activation into the primitive's layout, and moves *place there. */
static trm_status add_input_reorder(trm_convolution_draft *draft, const_dnnl_memory_desc_t user,
                                    const_dnnl_memory_desc_t plain, trm_place *place,
                                    trm_error *error) {
  if (user == plain) return TRM_OK;
  const trm_place to = trm_sequence_scratch(draft->sequence, dnnl_memory_desc_get_size(plain));
  TRY(trm_onednn_add_reorder(draft->sequence, user, *place, plain, to, error));
  *place = to;
  return TRM_OK;
}

/* Brings the activations that are read to the type and layout of the primitive. */
static trm_status add_inputs(trm_convolution_draft *draft, trm_error *error) {
  const trm_kernel_request *request = draft->request;
  trm_sequence *sequence = draft->sequence;
  trm_convolution_problem *p = &draft->p;
  const bool is_data = p->kind == TRM_BACKWARD_DATA, is_weights = p->kind == TRM_BACKWARD_WEIGHTS;
  const trm_dtype dtypes[2] = {trm_operand_shape(request, 0)->dtype,
                               trm_operand_shape(request, is_data ? 0 : 1)->dtype}; /* x, y */
  const bool in_pieces = draft->pieces > 0, reads_y = is_data || is_weights;
  const dnnl_data_type_t x_type = is_data ? draft->out : draft->in;
  const dnnl_data_type_t y_type = reads_y ? draft->in : draft->out;
  if (in_pieces) TRY(trm_convolution_add_pieces(draft, error));
  if (!in_pieces && !is_data) {
    TRY(trm_sequence_add_widen(sequence, dtypes[0], p->x.count, false, &draft->x, error));
  }
  if (!in_pieces && reads_y) {
    TRY(trm_sequence_add_widen(sequence, dtypes[1], p->y.count, false, &draft->y, error));
  }
  TRY(trm_convolution_describe_data(draft, x_type, &p->x, p->groups * p->in_channels, p->x_size,
                                    &draft->x_user, &draft->x_plain, error));
  TRY(trm_convolution_describe_data(draft, y_type, &p->y, p->groups * p->out_channels, p->y_size,
                                    &draft->y_user, &draft->y_plain, error));
  draft->x.offset += (size_t)p->x.start * dnnl_data_type_size(x_type);
  if (!is_data) TRY(add_input_reorder(draft, draft->x_user, draft->x_plain, &draft->x, error));
  if (!reads_y) return TRM_OK;
  return add_input_reorder(draft, draft->y_user, draft->y_plain, &draft->y, error);
}

/* The steps of a forward convolution or its gradient by the data, between the layout that the way
 * writes and HLO's. */
static trm_status add_framed(trm_convolution_draft *draft, const trm_convolution_way *way,
                             trm_place result, size_t result_bytes, trm_error *error) {
  const bool is_data = draft->p.kind == TRM_BACKWARD_DATA;
  const trm_place home = is_data ? draft->x : draft->y;
  if (is_data && draft->p.is_x_cropped) {
    clearing *clear = ARENA_NEW(draft->request->arena, clearing, 1);
    CHECK_MEMORY(clear, "a oneDNN kernel");
    clear->bytes = result_bytes;
    TRY(trm_sequence_add_function(draft->sequence, run_clear, clear, result, result, result,
                                  error));
  }
  const_dnnl_memory_desc_t user = is_data ? draft->x_user : draft->y_user;
  const_dnnl_memory_desc_t plain = is_data ? draft->x_plain : draft->y_plain;
  const trm_place to =
      user == plain ? home
                    : trm_sequence_scratch(draft->sequence, dnnl_memory_desc_get_size(plain));
  TRY(way->add(draft, to, error));
  if (user == plain) return TRM_OK;
  return trm_onednn_add_reorder(draft->sequence, plain, to, user, home, error);
}

static trm_status add_steps(trm_convolution_draft *draft, const trm_convolution_way *way,
                            trm_error *error) {
  const trm_place lhs = trm_place_operand(0, 0), rhs = trm_place_operand(1, 0);
  trm_place result = trm_place_result(0);
  if (draft->is_direct) {
    draft->x = draft->y = lhs, draft->w = rhs;
    return way->add(draft, result, error);
  }
  const trm_dtype dtype = draft->request->instruction->shape.dtype;
  const int64_t count = trm_shape_count(&draft->request->instruction->shape);
  const bool narrows = dtype != TRM_F32 && draft->out == dnnl_f32;
  const size_t bytes = (size_t)count * dnnl_data_type_size(draft->out);
  if (narrows) result = trm_sequence_scratch(draft->sequence, bytes);
  const bool is_data = draft->p.kind == TRM_BACKWARD_DATA;
  const bool is_weights = draft->p.kind == TRM_BACKWARD_WEIGHTS;
  draft->x = is_data ? result : lhs;
  draft->y = is_data ? lhs : is_weights ? rhs : result;
  draft->w = is_weights ? result : rhs;
  TRY(add_inputs(draft, error));
  if (is_weights) TRY(way->add(draft, draft->w, error));
  else TRY(add_framed(draft, way, result, bytes, error));
  if (!narrows) return TRM_OK;
  return trm_sequence_add_narrow(draft->sequence, dtype, count, result, error);
}

/* ---- Kernels --------------------------------------------------------------------------------- */

static double work_of(const trm_convolution_problem *p) {
  double outputs = (double)(p->batch * p->groups * p->out_channels), kernel = 1;
  for (int i = 0; i < p->spatial; ++i) {
    outputs *= (double)p->y_size[i], kernel *= (double)p->k_size[i];
  }
  const double bytes = 4 * ((double)p->x.count + (double)p->y.count + (double)p->w.count);
  return trm_sequence_work(bytes, outputs * kernel * 2 * (double)p->in_channels);
}

static const char *kernel_name(trm_propagation kind) {
  switch (kind) {
    case TRM_FORWARD: return "convolution.forward";
    case TRM_BACKWARD_DATA: return "convolution.backward_data";
    case TRM_BACKWARD_WEIGHTS: return "convolution.backward_weights";
  }
  return "convolution";
}

/* Creates the kernel of the first way that has steps. */
static trm_status create_of_steps(trm_convolution_draft *draft, trm_kernel *out_kernel,
                                  trm_error *error) {
  trm_status status =
      trm_sequence_create(draft->request, work_of(&draft->p), &draft->sequence, error);
  if (status == TRM_OK) {
    draft->attributes = trm_onednn_attributes();
    if (draft->attributes == NULL) {
      status = trm_fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory while allocating a kernel");
    }
  }
  const trm_convolution_way *way = find_way(draft, true);
  if (status == TRM_OK) status = add_steps(draft, way, error);
  if (status == TRM_OK) {
    status = trm_sequence_finish(draft->sequence, way->name, kernel_name(draft->p.kind),
                                 draft->products, out_kernel, error);
  }
  if (draft->forward != NULL) dnnl_primitive_desc_destroy(draft->forward);
  if (draft->desc != NULL) dnnl_primitive_desc_destroy(draft->desc);
  if (draft->attributes != NULL) dnnl_primitive_attr_destroy(draft->attributes);
  if (status != TRM_OK) trm_sequence_free(draft->sequence);
  return status;
}

trm_status trm_convolution_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                                  bool *out_supported, trm_error *error) {
  *out_supported = false;
  trm_convolution_draft draft = {.request = request};
  if (!trm_convolution_restate(request, &draft.p)) return TRM_OK;
  draft.products = products_of(request, &draft.p);
  draft.pieces = trm_half_products_pieces(draft.products);
  draft.in = draft.pieces > 0 ? dnnl_bf16 : dnnl_f32;
  /* A gradient of weights is summed from chunks, which are floats. */
  const bool rounds = draft.products == TRM_HALF_PRODUCTS_BFLOAT16 &&
                      request->instruction->shape.dtype == TRM_BF16 &&
                      draft.p.kind != TRM_BACKWARD_WEIGHTS;
  draft.out = rounds ? dnnl_bf16 : dnnl_f32;
  const trm_convolution_way *whole = find_way(&draft, false);
  /* A way that has the other kernel in reserve keeps the weights itself. */
  draft.keeps_weights = whole == NULL && trm_operand_may_repeat(request, 1);
  trm_convolution_draft steps = draft;
  trm_kernel kernel;
  trm_status status = create_of_steps(&steps, &kernel, error);
  if (status == TRM_UNIMPLEMENTED) return TRM_OK;
  if (status == TRM_OK && whole != NULL) {
    const char *name =
        trm_arena_format(request->arena, "%s.%s", whole->name, kernel_name(draft.p.kind));
    const trm_kernel direct = kernel;
    status = whole->create(&draft, name != NULL ? name : direct.name, &direct, &kernel, error);
  }
  *out_kernel = kernel;
  *out_supported = status == TRM_OK;
  return status;
}
