/* Who maps a new variable to tiles. */
#ifndef TREMULA_POPLAR_VARIABLE_MAPPING_METHOD_HPP_
#define TREMULA_POPLAR_VARIABLE_MAPPING_METHOD_HPP_

namespace poplar {

enum class VariableMappingMethod { NONE, LINEAR };

}  // namespace poplar

#endif  // TREMULA_POPLAR_VARIABLE_MAPPING_METHOD_HPP_
