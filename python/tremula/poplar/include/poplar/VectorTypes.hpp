/* Vector and its layouts, under the name that older codelets include. */
#ifndef TREMULA_POPLAR_VECTOR_TYPES_HPP_
#define TREMULA_POPLAR_VECTOR_TYPES_HPP_

#include "InOutTypes.hpp"

#endif // TREMULA_POPLAR_VECTOR_TYPES_HPP_
