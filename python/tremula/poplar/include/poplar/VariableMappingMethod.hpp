/* Who maps a new variable to tiles. */
#pragma once

namespace poplar {

enum class VariableMappingMethod { NONE, LINEAR };

} // namespace poplar
