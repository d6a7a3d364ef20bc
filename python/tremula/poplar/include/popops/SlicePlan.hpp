/* Plans of slices, which Tremula does not need: an argument. */
#pragma once

namespace popops {

class SlicePlan {};

} // namespace popops
