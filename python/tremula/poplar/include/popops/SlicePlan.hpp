/* Plans of slices, which Tremula does not need: an argument. */
#ifndef TREMULA_POPOPS_SLICE_PLAN_HPP_
#define TREMULA_POPOPS_SLICE_PLAN_HPP_

namespace popops {

class SlicePlan {};

} // namespace popops

#endif // TREMULA_POPOPS_SLICE_PLAN_HPP_
